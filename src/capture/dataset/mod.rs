//! Data sets as people keep them: which format a file or directory has, its splits, and how many records.
//!
//! | file | format |
//! |---|---|
//! | `saved` | `save_to_disk` of the datasets library |
//! | `parquet`, `arrow` | columns, counted from what the files say of themselves |
//! | `lines` | JSON lines and CSV, counted by reading |
//! | `tar` | `WebDataset`: samples in tar archives |
//! | `pointer` | what stands in the place of data: pointers of LFS, DVC and git-annex |
//!
//! All of it is description: it moves no id, and where something is not known or too dear to be counted, it is
//! left out. Nothing is unpacked, unpickled or followed to another file.

mod arrow;
mod lines;
mod parquet;
mod pointer;
mod saved;
mod tar;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::hub::{self, Located};
use super::walk::{Seen, Tree};

pub use pointer::{Pointer, pointers};

/// Text is counted by reading all of it once more, so only up to this many bytes in all.
const MAX_TEXT: u64 = 256 << 20;
/// Columnar files are counted from their ends, so up to this many of them.
const MAX_FILES: usize = 20_000;

/// What a data set is, as far as its files tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Its format, or the formats of its files.
    pub format: String,
    /// Records in all of it, where they are known.
    pub records: Option<u64>,
    /// Its parts, by name; none where the files name none.
    pub splits: Vec<Split>,
    /// What the library that wrote it calls its state.
    pub fingerprint: Option<String>,
    /// Where in the hub it came from.
    pub place: Option<Located>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// A part of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Its name, as `train`.
    pub name: String,
    /// Files of it.
    pub files: u64,
    /// Records in it, where they are known.
    pub records: Option<u64>,
}

impl Description {
    /// Returns the texts that stand beside a record: `format`, `records`, `splits`, `fingerprint`, `repository`,
    /// `commit`, those that are known.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let mut texts = place_texts(self.place.as_ref());
        let mut add = |key: &str, text: Option<String>| {
            texts.extend(text.filter(|text| !text.is_empty()).map(|text| (key.to_owned(), text)));
        };
        add("format", Some(self.format.clone()));
        add("records", self.records.map(|records| records.to_string()));
        add("splits", Some(self.splits.iter().map(Split::describe).collect::<Vec<_>>().join(", ")));
        add("fingerprint", self.fingerprint.clone());
        texts
    }

    /// Says in one line what it is.
    pub fn line(&self) -> String {
        let mut parts = vec![self.format.clone()];
        parts.extend(self.records.map(|records| counted(records, "record")));
        parts.extend((self.splits.len() > 1).then(|| {
            let names: Vec<&str> = self.splits.iter().take(4).map(|split| split.name.as_str()).collect();
            let more = if self.splits.len() > 4 { ".." } else { "" };
            format!("splits {}{more}", names.join(" "))
        }));
        parts.extend(self.place.as_ref().map(Located::short));
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }
}

/// Returns the texts that say where in the hub something came from.
pub fn place_texts(place: Option<&Located>) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    if let Some(place) = place {
        texts.extend(place.repo.clone().map(|repo| ("repository".to_owned(), repo)));
        texts.insert("commit".to_owned(), place.commit.clone());
        if !place.inside.is_empty() {
            texts.insert("inside".to_owned(), place.inside.clone());
        }
    }
    texts
}

impl Split {
    fn describe(&self) -> String {
        match self.records {
            Some(records) => format!("{} {records}", self.name),
            None => self.name.clone(),
        }
    }
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Formats of single files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Parquet,
    Arrow,
    JsonLines,
    Csv,
    Tar,
    /// One of the texts above, compressed: it is named and not counted.
    Packed(&'static str),
}

impl Form {
    fn of(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let (plain, is_packed) = match lower.rsplit_once('.') {
            Some((plain, "gz" | "zst" | "bz2" | "xz")) => (plain, true),
            _ => (lower.as_str(), false),
        };
        let (_, end) = plain.rsplit_once('.')?;
        Some(match (end, is_packed) {
            ("parquet", false) => Self::Parquet,
            ("arrow" | "feather", false) => Self::Arrow,
            ("jsonl" | "ndjson", false) => Self::JsonLines,
            ("csv" | "tsv", false) => Self::Csv,
            ("tar", false) => Self::Tar,
            ("jsonl" | "ndjson" | "json", true) => Self::Packed("jsonl, compressed"),
            ("csv" | "tsv", true) => Self::Packed("csv, compressed"),
            ("tar", true) => Self::Packed("tar, compressed"),
            _ => return None,
        })
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::JsonLines => "jsonl",
            Self::Csv => "csv",
            Self::Tar => "tar",
            Self::Packed(word) => word,
        }
    }

    const fn is_text(self) -> bool {
        matches!(self, Self::JsonLines | Self::Csv)
    }
}

/// A data file of a tree.
struct Part<'a> {
    seen: &'a Seen,
    name: String,
    form: Form,
}

/// Describes what was seen under a path.
pub fn describe(tree: &Tree, path: &Path) -> Description {
    let place = hub::locate(path);
    if let Some(found) = saved::describe(tree, path) {
        return Description { place, ..found };
    }
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut others: BTreeSet<String> = BTreeSet::new();
    for seen in &tree.files {
        let name = String::from_utf8_lossy(&seen.path).into_owned();
        let last = name.rsplit('/').next().unwrap_or(&name);
        match Form::of(last) {
            Some(form) => parts.push(Part { seen, name, form }),
            None if is_beside(&name) => {}
            None => {
                others.insert(last.rsplit_once('.').map_or(String::new(), |(_, end)| end.to_lowercase()));
            }
        }
    }
    let forms: BTreeSet<Form> = parts.iter().map(|part| part.form).collect();
    let words: BTreeSet<&str> = forms.iter().map(|form| form.word()).collect();
    let mut format: Vec<&str> = words.into_iter().collect();
    if format.is_empty() && others.len() == 1 {
        // Images, say: the ending is the best word that there is.
        format.extend(others.iter().map(String::as_str).filter(|end| !end.is_empty() && end.len() <= 8));
    }
    if format.is_empty() {
        format.push("files");
    }
    let mut found = Description { format: format.join(", "), place, ..Description::default() };
    let [form] = forms.iter().copied().collect::<Vec<_>>()[..] else {
        return found;
    };
    if !others.is_empty() && form != Form::Tar {
        // Records of a table that describes images beside it are not all of the data.
        found.format = format!("{}, files", found.format);
    }
    let counts = count(&parts, form, tree, path, &mut found.notes);
    if form == Form::Tar && counts.iter().any(|count| count.is_some_and(|count| count > 0)) {
        "webdataset".clone_into(&mut found.format);
    }
    found.records = counts.iter().copied().sum();
    found.splits = splits(&parts, &counts);
    found
}

/// Counts the records of each file; `None` where that is too dear or the file is not what its name says.
fn count(
    parts: &[Part<'_>],
    form: Form,
    tree: &Tree,
    path: &Path,
    notes: &mut Vec<String>,
) -> Vec<Option<u64>> {
    let bytes: u64 = parts.iter().map(|part| part.seen.size).sum();
    if parts.len() > MAX_FILES || form.is_text() && bytes > MAX_TEXT || matches!(form, Form::Packed(_)) {
        return vec![None; parts.len()];
    }
    if form == Form::Tar {
        let files: Vec<PathBuf> = parts.iter().map(|part| tree.place_of(path, &part.seen.path)).collect();
        return tar::count_all(&files);
    }
    let found: Vec<Result<u64, String>> = parts
        .par_iter()
        .map(|part| {
            let at = tree.place_of(path, &part.seen.path);
            match form {
                Form::Parquet => parquet::rows(&at),
                Form::Arrow => arrow::rows(&at),
                Form::JsonLines => lines::json(&at),
                Form::Csv => lines::csv(&at, part.name.to_lowercase().ends_with("tsv")),
                Form::Tar | Form::Packed(_) => Err("it is not counted".to_owned()),
            }
        })
        .collect();
    for (part, result) in parts.iter().zip(&found) {
        if let Err(why) = result {
            notes.push(format!("the records of `{}` are not counted: {why}", part.name));
        }
    }
    notes.truncate(4);
    found.into_iter().map(Result::ok).collect()
}

/// What lies beside data and is none: cards, licences, bookkeeping.
fn is_beside(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    name.split('/').any(|part| part.starts_with('.'))
        || ["readme", "license", "licence", "citation", "notice"].iter().any(|word| last.starts_with(word))
        || [".md", ".dvc", ".lock", ".txt.sha256", ".sha256", ".md5"].iter().any(|end| last.ends_with(end))
        || matches!(
            last.as_str(),
            "dataset_infos.json" | "dataset_info.json" | "croissant.json" | "checksums.txt"
        )
}

/// Words that name a part of the data wherever they stand in a file's name.
const SPLITS: [(&str, &str); 9] = [
    ("train", "train"),
    ("training", "train"),
    ("validation", "validation"),
    ("valid", "validation"),
    ("val", "validation"),
    ("dev", "validation"),
    ("test", "test"),
    ("eval", "test"),
    ("heldout", "heldout"),
];

/// Names the split of a file by the hub's rules: `NAME-00000-of-00002`, else a directory or a word of the name.
fn split_of(name: &str) -> Option<String> {
    let mut parts: Vec<&str> = name.split('/').collect();
    let file = parts.pop()?;
    let stem = file.split('.').next().unwrap_or(file);
    let shard =
        stem.rsplit_once("-of-").filter(|(_, n)| n.len() >= 2 && n.bytes().all(|b| b.is_ascii_digit()));
    let shard = shard.and_then(|(rest, _)| rest.rsplit_once('-'));
    if let Some((name, number)) = shard
        && number.bytes().all(|b| b.is_ascii_digit())
        && !name.is_empty()
    {
        return Some(name.to_lowercase());
    }
    let word = |text: &str| {
        let lower = text.to_lowercase();
        let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
        words
            .find_map(|word| SPLITS.iter().find(|(known, _)| *known == word))
            .map(|(_, split)| (*split).to_owned())
    };
    word(stem).or_else(|| parts.iter().rev().find_map(|part| word(part)))
}

fn splits(parts: &[Part<'_>], counts: &[Option<u64>]) -> Vec<Split> {
    let mut found: BTreeMap<String, Split> = BTreeMap::new();
    for (part, count) in parts.iter().zip(counts) {
        // A file without a split would belong to all of them.
        let Some(name) = split_of(&part.name) else { return Vec::new() };
        let split = found.entry(name.clone()).or_insert(Split { name, files: 0, records: Some(0) });
        split.files += 1;
        split.records = split.records.zip(*count).map(|(a, b)| a + b);
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use std::fs;

    use super::*;
    use crate::capture::walk::{Options, observe};
    use crate::id::Digests;

    fn described(files: &[(&str, &[u8])]) -> Description {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let tree = observe(dir.path(), &Options::new(Digests::Blake3), &|_| {}).unwrap();
        describe(&tree, dir.path())
    }

    #[test]
    fn names_tell_splits() {
        for (name, split) in [
            ("data/train-00000-of-00002.parquet", Some("train")),
            ("data/hard_set-00001-of-00002.parquet", Some("hard_set")),
            ("verbs_test.jsonl", Some("test")),
            ("val.csv", Some("validation")),
            ("dev/part-1.csv", Some("validation")),
            ("training/0001.tar", Some("train")),
            ("contest.csv", None),
            ("latest/x.csv", None),
            ("x.csv", None),
        ] {
            assert_eq!(split_of(name).as_deref(), split, "{name}");
        }
    }

    #[test]
    fn a_directory_of_one_format_is_counted_by_split() {
        let found = described(&[
            ("train.jsonl", b"{}\n{}\n"),
            ("test.jsonl", b"{}\n"),
            ("README.md", b"# card\n"),
            (".gitattributes", b"x\n"),
        ]);
        assert_eq!((found.format.as_str(), found.records), ("jsonl", Some(3)));
        let texts = found.texts();
        assert_eq!(texts["splits"], "test 1, train 2");
        assert_eq!(found.line(), "jsonl, 3 records, splits test train");
        assert!(!texts.contains_key("commit") && !texts.contains_key("fingerprint"));
    }

    #[test]
    fn a_mixture_is_named_and_not_counted() {
        let found = described(&[("a.jsonl", b"{}\n"), ("b.csv", b"1,2\n")]);
        assert_eq!((found.format.as_str(), found.records, found.splits.len()), ("csv, jsonl", None, 0));
        let table = described(&[("labels.csv", b"a,b\n1,2\n"), ("images/1.png", b"x")]);
        assert_eq!((table.format.as_str(), table.records), ("csv, files", Some(1)));
        assert_eq!(described(&[("1.png", b"x"), ("2.png", b"y")]).format, "png");
        assert_eq!(described(&[("1.png", b"x"), ("2.gif", b"y")]).format, "files");
        assert_eq!(described(&[("a.jsonl.gz", b"x")]).line(), "jsonl, compressed");
    }

    #[test]
    fn a_file_that_is_not_what_its_name_says_is_told_and_not_counted() {
        let found = described(&[("a.parquet", b"no parquet at all, but long enough")]);
        assert_eq!((found.records, found.notes.len()), (None, 1), "{found:?}");
        assert!(found.notes[0].contains("a.parquet"), "{found:?}");
    }
}
