//! Requirements files, line by line: what pip reads, and what `pip freeze` writes.

use super::lock::Quality;
use super::marker::{Target, holds};
use super::packages::{Locked, Manager, normalised};

/// Judges a requirements file by its weakest line; returns the lines that no digest covers.
pub(super) fn judge(text: &str) -> (Quality, Vec<String>) {
    let mut quality = Quality::Hashed;
    let mut unhashed = Vec::new();
    let mut any = false;
    for line in logical_lines(text) {
        let Some(found) = requirement(&line) else { continue };
        any = true;
        if found != Quality::Hashed {
            unhashed.push(line.clone());
        }
        // The project itself cannot have a digest here; the code's state covers it.
        if !is_own_project(&line) {
            quality = quality.weaker(found);
        }
    }
    if any { (quality, unhashed) } else { (Quality::Unknown, unhashed) }
}

/// Tells whether a file says that `pip freeze` wrote it.
///
/// Most of its lines could be written by hand as well. Its own are the remark above an editable install, and
/// names with capitals or underscores, in an order that ignores case, with one exact version each: what tools
/// that lock write is normalised.
pub(super) fn is_freeze(text: &str) -> bool {
    if text.lines().any(|line| line.starts_with("# Editable install with no version control (")) {
        return true;
    }
    let mut names: Vec<String> = Vec::new();
    let mut as_installed = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with("-e ") {
            continue;
        }
        let name = match (line.split_once("=="), line.split_once(" @ ")) {
            (Some((name, version)), _) if !version.contains([' ', ';', '*', ',']) => name,
            (_, Some((name, address))) => {
                as_installed |= address.starts_with("file://");
                name
            }
            _ => return false,
        };
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
            return false;
        }
        as_installed |= normalised(name) != name;
        names.push(name.to_lowercase());
    }
    as_installed && names.is_sorted()
}

/// Returns the lines that install a directory as it stands.
pub(super) fn editable(text: &str) -> Vec<String> {
    let is_editable = |line: &String| line.starts_with("-e ") || line.starts_with("--editable");
    logical_lines(text).into_iter().filter(is_editable).collect()
}

/// Reads what the lines require.
pub(super) fn packages(text: &str, target: &Target) -> Vec<Locked> {
    let package = |line: &String| {
        let quality = requirement(line)?;
        let is_own = is_own_project(line);
        if line.starts_with('-') {
            // An editable line has no name of its own.
            return None;
        }
        let body = line.split(" --hash=").next().unwrap_or_default();
        let (body, marker) = match body.split_once("://") {
            Some(_) => body.split_once(" ;").unwrap_or((body, "")),
            None => body.split_once(';').unwrap_or((body, "")),
        };
        let end =
            body.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(body.len());
        let name = &body[..end];
        if name.is_empty() {
            return None;
        }
        let version = body[end..].split_once("==").filter(|_| !body.contains("://"));
        let version = version.map(|(_, version)| version.trim_start_matches('=').trim().to_owned());
        let version = version.filter(|version| !version.contains(['*', ',', ' ']));
        let required = if marker.trim().is_empty() { Some(true) } else { holds(marker, target) };
        Some(Locked { name: normalised(name), version, manager: Manager::Python, quality, required, is_own })
    };
    logical_lines(text).iter().filter_map(package).collect()
}

/// Joins lines that end in a backslash and drops comments and blank lines.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut joined = String::new();
    for line in text.lines() {
        let line = line.trim_end();
        let comment = line.trim_start().starts_with('#');
        let (line, goes_on) = match line.strip_suffix('\\') {
            Some(line) if !comment => (line, true),
            _ => (line, false),
        };
        // A `#` begins a comment only after a space: a URL may have a fragment.
        let line = if comment { "" } else { line.split(" #").next().unwrap_or_default() };
        if !joined.is_empty() && !line.trim().is_empty() {
            joined.push(' ');
        }
        joined.push_str(line.trim());
        if !goes_on && !joined.is_empty() {
            lines.push(std::mem::take(&mut joined));
        }
    }
    if !joined.is_empty() {
        lines.push(joined);
    }
    lines
}

/// Judges one line; none if it requires nothing.
fn requirement(line: &str) -> Option<Quality> {
    let is_option = |names: &[&str]| {
        names.iter().any(|name| {
            line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '=', '\t']))
        })
    };
    if is_option(&["-e", "--editable", "-r", "--requirement"]) {
        return Some(Quality::Loose);
    }
    if line.starts_with('-') {
        return None;
    }
    if line.contains(" --hash=") {
        return Some(Quality::Hashed);
    }
    // What follows `;` says when the line counts.
    let line = line.split(" ;").next().unwrap_or_default();
    if let Some((_, address)) = line.split_once("://") {
        let fragment = address.split_once('#').map_or("", |(_, fragment)| fragment);
        if fragment.split('&').any(|part| part.starts_with("sha256=") || part.starts_with("sha512=")) {
            return Some(Quality::Hashed);
        }
        let commit = address.split('#').next().and_then(|address| address.rsplit_once('@'));
        let pinned =
            commit.is_some_and(|(_, at)| at.len() >= 40 && at.bytes().all(|b| b.is_ascii_hexdigit()));
        return Some(if pinned { Quality::Pinned } else { Quality::Loose });
    }
    let line = line.split(';').next().unwrap_or_default();
    let pinned = line.split_once("==").is_some_and(|(_, version)| {
        !version.contains('*') && !version.contains(',') && !version.trim().is_empty()
    });
    Some(if pinned { Quality::Pinned } else { Quality::Loose })
}

fn is_own_project(line: &str) -> bool {
    let target = line.strip_prefix("-e ").or_else(|| line.strip_prefix("--editable ")).unwrap_or(line);
    matches!(target.trim(), "." | "./")
}
