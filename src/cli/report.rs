//! What `ledger verify` found, as a file: XML of `JUnit` for build servers, Markdown for people.
//!
//! A file is written whatever the answer is, also when there is none, so that no report of an earlier call is
//! taken for this one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::durable::outside;

use super::error::Failure;
use super::settings::{Context, disk};
use super::ui::{Answer, Finding, Severity, plain};

/// The form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Junit,
    Markdown,
}

/// A report that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    form: Form,
    path: PathBuf,
}

/// Reads `junit=FILE` or `md=FILE`.
pub(super) fn parse(text: &str) -> Result<Wanted, String> {
    let (form, path) = text.split_once('=').ok_or("it is not FORM=FILE")?;
    let form = match form {
        "junit" => Form::Junit,
        "md" => Form::Markdown,
        other => return Err(format!("`{other}` is neither junit nor md")),
    };
    if path.is_empty() {
        return Err("the file has no name".to_owned());
    }
    Ok(Wanted { form, path: path.into() })
}

/// Writes every report that was asked for about `subject`.
pub(super) fn write(
    wanted: &[Wanted],
    subject: &str,
    result: &Result<Answer, Failure>,
    context: &Context,
) -> Result<(), Failure> {
    for report in wanted {
        let text = text(report.form, subject, result);
        let path = context.path(Path::new(&report.path));
        outside::replace(&disk(), &path, text.as_bytes(), 0o644)?;
    }
    Ok(())
}

fn text(form: Form, subject: &str, result: &Result<Answer, Failure>) -> String {
    let (sentence, findings) = match result {
        Ok(answer) => (answer.text.lines().next().unwrap_or_default().to_owned(), answer.findings.clone()),
        Err(failure) => {
            let finding = Finding {
                kind: failure.slug.to_owned(),
                id: None,
                severity: Severity::Unknown,
                at: None,
                message: failure.message.clone(),
                hint: failure.hint.clone(),
            };
            (format!("error[{}]: {}", failure.slug, failure.message), vec![finding])
        }
    };
    match form {
        Form::Junit => junit(subject, &findings),
        Form::Markdown => markdown(&plain(&sentence), &findings),
    }
}

/// Each finding is a case: what does not hold is a failure, and what could not be decided an error.
fn junit(subject: &str, findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (failures, errors) = (count(Severity::Fail), count(Severity::Unknown));
    let counts = format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\"", findings.len());
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let _ = writeln!(text, "<testsuites {counts}>");
    let (name, skipped) = (xml(&format!("ledger verify {subject}")), count(Severity::Skip));
    let _ = writeln!(text, "  <testsuite name=\"{name}\" {counts} skipped=\"{skipped}\">");
    for finding in findings {
        let at = finding.at.as_ref().map_or(String::new(), |at| format!(" {at}"));
        let name = xml(&format!("{}{at}", finding.kind));
        let message = xml(&finding.message);
        let body = match finding.severity {
            Severity::Ok => format!("<system-out>{message}</system-out>"),
            Severity::Warn => format!("<system-out>warning: {message}</system-out>"),
            Severity::Skip => format!("<skipped message=\"{message}\"/>"),
            Severity::Fail => format!("<failure message=\"{message}\"/>"),
            Severity::Unknown => format!("<error message=\"{message}\"/>"),
        };
        let _ = writeln!(text, "    <testcase classname=\"ledger.verify\" name=\"{name}\">{body}</testcase>");
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

/// Escapes text for XML 1.0, in which some characters cannot stand at all.
fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

fn markdown(sentence: &str, findings: &[Finding]) -> String {
    let mut text = format!("**{}**\n\n| | finding | where | what |\n|---|---|---|---|\n", cell(sentence));
    for finding in findings {
        let word = if finding.severity == Severity::Fail { "FAIL" } else { finding.severity.word() };
        let at = finding.at.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "| {word} | {} | {} | {} |",
            cell(&finding.kind),
            cell(at),
            cell(&finding.message)
        );
    }
    text
}

/// Escapes text so that it stays in its cell and is no markup.
fn cell(text: &str) -> String {
    let mut escaped = String::new();
    for c in plain(text).chars() {
        match c {
            '\n' | '\t' => escaped.push(' '),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '|' | '\\' | '*' | '_' | '[' | ']' | '`' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_stay_text_in_both_forms() {
        let finding = |severity, at: &str| Finding {
            kind: "wrong-bytes".to_owned(),
            id: None,
            severity,
            at: Some(at.to_owned()),
            message: "a \"b\" & c".to_owned(),
            hint: None,
        };
        let findings = [finding(Severity::Fail, "</testcase>\u{1b}|x`"), finding(Severity::Unknown, "y")];
        let text = junit("out", &findings);
        assert!(text.contains("tests=\"2\" failures=\"1\" errors=\"1\""), "{text}");
        assert!(text.contains("name=\"wrong-bytes &lt;/testcase&gt;\\u{1b}|x`\""), "{text}");
        assert!(text.contains("<failure message=\"a &quot;b&quot; &amp; c\"/>"), "{text}");
        let text = markdown("FAIL  x", &findings);
        assert!(
            text.contains("| FAIL | wrong-bytes | &lt;/testcase>\\\\u{1b}\\|x\\` | a \"b\" &amp; c |"),
            "{text}"
        );
    }

    #[test]
    fn a_report_has_a_form_and_a_file() {
        assert_eq!(parse("md=a=b").unwrap().path, Path::new("a=b"));
        assert!(parse("junit").is_err() && parse("junit=").is_err() && parse("sarif=x").is_err());
    }
}
