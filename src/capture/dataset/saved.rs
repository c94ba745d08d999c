//! What `save_to_disk` of the datasets library leaves: a directory for each split, with its state and Arrow files.
//!
//! `dataset_dict.json` names the splits; a split has `state.json` with `_fingerprint` and the list of its files,
//! and `dataset_info.json`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::Value;

use super::{Description, Split, arrow};
use crate::capture::walk::{self, Root, Tree};

/// State files are lists of file names and a few words.
const MAX_JSON: u64 = 16 << 20;

/// Describes a directory of that form; `None` if it is not one.
pub(super) fn describe(tree: &Tree, path: &Path) -> Option<Description> {
    if matches!(tree.root, Root::File { .. }) {
        return None;
    }
    let names: Vec<String> = if let Some(dict) = json(tree, path, "dataset_dict.json") {
        let names = dict.get("splits")?.as_array()?;
        names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
    } else {
        // One split alone lies in the directory itself.
        tree.file(b"dataset_info.json")?;
        tree.file(b"state.json")?;
        vec![String::new()]
    };
    let mut found = Description { format: "datasets on disk".to_owned(), ..Description::default() };
    let mut fingerprints = Vec::new();
    let is_dict = names != [""];
    for name in names {
        let below = if name.is_empty() { String::new() } else { format!("{name}/") };
        let Some(state) = json(tree, path, &format!("{below}state.json")) else {
            found.notes.push(format!("split `{name}` has no `state.json`"));
            found.splits.push(Split { name, files: 0, records: None });
            continue;
        };
        let listed: Vec<&str> = state
            .get("_data_files")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|file| file.get("filename")?.as_str())
            .collect();
        let mut records = Some(0_u64);
        for file in &listed {
            let relative = format!("{below}{file}");
            if tree.file(relative.as_bytes()).is_none() {
                found.notes.push(format!("`{below}state.json` names `{file}`, which is not there"));
                records = None;
                continue;
            }
            match arrow::rows(&path.join(OsStr::from_bytes(relative.as_bytes()))) {
                Ok(rows) => records = records.and_then(|sum| sum.checked_add(rows)),
                Err(why) => {
                    found.notes.push(format!("the records of `{relative}` are not counted: {why}"));
                    records = None;
                }
            }
        }
        let known: BTreeSet<String> = listed.iter().map(|file| format!("{below}{file}")).collect();
        let is_extra = |file: &str| {
            file.strip_prefix(&below).is_some_and(|rest| !rest.contains('/'))
                && Path::new(file).extension().is_some_and(|end| end == "arrow")
                && !known.contains(file)
        };
        for file in tree.files.iter().map(|file| String::from_utf8_lossy(&file.path)) {
            if is_extra(&file) {
                found.notes.push(format!(
                    "`{file}` is no part of the data set: `{below}state.json` does not name it"
                ));
            }
        }
        if let Some(print) = state.get("_fingerprint").and_then(Value::as_str).filter(|print| is_plain(print))
        {
            fingerprints.push(if is_dict { format!("{name} {print}") } else { print.to_owned() });
        }
        let name = match state.get("_split").and_then(Value::as_str).filter(|_| !is_dict) {
            Some(split) => split.to_owned(),
            None => name,
        };
        found.splits.push(Split { name, files: listed.len() as u64, records });
    }
    found.splits.sort_by(|a, b| a.name.cmp(&b.name));
    fingerprints.sort();
    found.records = found.splits.iter().map(|split| split.records).sum();
    found.fingerprint = (!fingerprints.is_empty()).then(|| fingerprints.join(", "));
    found.notes.truncate(8);
    Some(found)
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

fn json(tree: &Tree, path: &Path, name: &str) -> Option<Value> {
    let seen = tree.file(name.as_bytes()).filter(|seen| seen.size <= MAX_JSON)?;
    let (file, _) = walk::open_regular(&path.join(name)).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_JSON).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == seen.size).then(|| serde_json::from_slice(&bytes).ok()).flatten()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use std::fs;

    use super::*;
    use crate::capture::walk::{Options, observe};
    use crate::id::Digests;

    const REAL: &str = "tests/fixtures/data/save-to-disk/verbs";

    fn described(path: &Path) -> Description {
        let tree = observe(path, &Options::new(Digests::Blake3), &|_| {}).unwrap();
        describe(&tree, path).unwrap()
    }

    fn copied(dir: &Path) {
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL);
        let tree = observe(&real, &Options::new(Digests::Blake3), &|_| {}).unwrap();
        for file in &tree.files {
            let name = OsStr::from_bytes(&file.path);
            fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            fs::copy(real.join(name), dir.join(name)).unwrap();
        }
    }

    #[test]
    fn splits_records_and_fingerprints_are_read() {
        let found = described(&Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL));
        assert_eq!(found.records, Some(24));
        let texts = found.texts();
        assert_eq!(texts["splits"], "test 12, train 12");
        assert_eq!(texts["fingerprint"], "test 2dc763786f1e2dfd, train 2b62d22b3dc2719c");
        assert_eq!(found.notes, Vec::<String>::new());
        let one = described(&Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL).join("test"));
        assert_eq!((one.records, one.fingerprint.as_deref()), (Some(12), Some("2dc763786f1e2dfd")));
    }

    #[test]
    fn a_file_too_few_or_too_many_is_told() {
        let dir = tempfile::tempdir().unwrap();
        copied(dir.path());
        let train = dir.path().join("train");
        fs::rename(train.join("data-00001-of-00002.arrow"), train.join("data-00002-of-00003.arrow")).unwrap();
        let found = described(dir.path());
        assert_eq!((found.records, found.notes.len()), (None, 2), "{:?}", found.notes);
        assert!(found.notes[0].contains("data-00001-of-00002.arrow") && found.notes[0].contains("not there"));
        assert!(found.notes[1].contains("data-00002-of-00003.arrow") && found.notes[1].contains("no part"));
        fs::remove_file(train.join("state.json")).unwrap();
        assert_eq!(described(dir.path()).notes, ["split `train` has no `state.json`"]);
    }
}
