//! Sync points: which operations of the story are syncs, and what each one is for.

use std::path::{Component, Path};

/// One sync of the story.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SyncPoint {
    /// Which operation it is.
    pub(crate) at: usize,
    /// What is synced: the path with ids and numbers left out, with a slash at the end of a directory's.
    pub(crate) what: String,
    /// The path itself, as the operation names it.
    pub(crate) path: String,
}

/// Finds the syncs among a disk's operations.
///
/// A file is synced before it has its name, so its name is the one that it is given next.
pub(crate) fn sync_points(operations: &[String]) -> Vec<SyncPoint> {
    let point = |(at, operation): (usize, &String)| {
        let (verb, path) = operation.split_once(' ')?;
        let path = path.trim_end_matches('/');
        let what = match verb {
            "sync-dir" => format!("{}/", pattern(path)),
            "sync" => pattern(named_next(path, &operations[at..])?),
            _ => return None,
        };
        // `init` asks whether the disk can sync at all, on files that nobody keeps.
        (!what.contains("/tmp")).then(|| SyncPoint { at, what, path: settled(path) })
    };
    operations.iter().enumerate().filter_map(point).collect()
}

/// Returns a path under a new ledger as it is once that has its name.
fn settled(path: &str) -> String {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    if first.starts_with(".ledger.new-") {
        format!(".ledger/{rest}").trim_end_matches('/').to_owned()
    } else {
        path.to_owned()
    }
}

fn named_next<'a>(path: &str, later: &'a [String]) -> Option<&'a str> {
    later.iter().find_map(|operation| {
        let mut words = operation.split(' ');
        let is_naming = matches!(words.next(), Some("link" | "rename"));
        (is_naming && words.next() == Some(path)).then(|| words.next()).flatten()
    })
}

/// Leaves out what differs between two of a kind: ids, numbers, and the name that a new ledger has at first.
fn pattern(path: &str) -> String {
    let words: Vec<&str> = Path::new(path)
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    let word = |(at, word): (usize, &&str)| {
        let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let above = at.checked_sub(1).map_or("", |at| words[at]);
        let form = match above {
            _ if word.starts_with(".ledger.new-") => ".ledger",
            "objects" => "XX",
            "heads" => "SIZE",
            "pending" => "UID",
            "runs" => "RUN",
            _ if is_hex && word.len() > 32 => "ID",
            _ if is_partial(above) => "WIDTH",
            _ if is_hex && word.len() == 62 => "ID",
            _ if is_number && (above == "0" || above == "entries") => "NNN",
            _ if is_partial(word) => "NNN.p",
            _ => word,
        };
        form.to_owned()
    };
    let words: Vec<String> = words.iter().enumerate().map(word).collect();
    if words.is_empty() { ".".to_owned() } else { words.join("/") }
}

/// Whether a name is that of a directory of unfinished tiles.
fn is_partial(name: &str) -> bool {
    name.strip_suffix(".p").is_some()
}

#[test]
fn syncs_are_named_by_what_they_keep() {
    let id = "0123456789abcdef".repeat(4);
    let operations = [
        "create .ledger.new-7-0/tmp/7-1".to_owned(),
        "sync .ledger.new-7-0/tmp/7-1".to_owned(),
        format!("link .ledger.new-7-0/tmp/7-1 .ledger.new-7-0/objects/ab/{}", &id[2..]),
        "sync-dir .ledger.new-7-0/objects/ab".to_owned(),
        "sync .ledger/tmp/7-2".to_owned(),
        "sync-dir .ledger/tmp".to_owned(),
        "sync .ledger/tmp/7-3".to_owned(),
        "rename .ledger/tmp/7-3 .ledger/log/checkpoint".to_owned(),
        "sync-dir ".to_owned(),
        "sync-dir .ledger/log/tile/entries/000.p".to_owned(),
        format!("sync-dir .ledger/log/pending/1000/{id}"),
    ];
    let found: Vec<(usize, String)> =
        sync_points(&operations).into_iter().map(|point| (point.at, point.what)).collect();
    let wanted = [
        (1, ".ledger/objects/XX/ID"),
        (3, ".ledger/objects/XX/"),
        (6, ".ledger/log/checkpoint"),
        (8, "./"),
        (9, ".ledger/log/tile/entries/NNN.p/"),
        (10, ".ledger/log/pending/UID/ID/"),
    ];
    assert_eq!(found, wanted.map(|(at, what)| (at, what.to_owned())));
}
