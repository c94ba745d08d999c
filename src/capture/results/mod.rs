//! Reads what evaluations leave behind into one form: metrics with their exact decimal text, what they were
//! measured on, how, and whether the evaluation was whole.
//!
//! | file | format |
//! |---|---|
//! | `lm_eval` | lm-evaluation-harness, `results_*.json` |
//! | `lighteval` | lighteval, `results_*.json` |
//! | `inspect`, `archive` | logs of Inspect, `.eval` and `.json` |
//! | `trainer` | metrics of the Hugging Face `Trainer`; any other JSON |
//! | `table` | comma- and tab-separated values |
//! | `card`, `hub` | claims: the head of a model card, `.eval_results/*.yaml` |
//! | `json` | the JSON that all of these are written in |
//! | `folder` | which files of a directory are results, and which belong to them |
//! | `join` | several files of one evaluation as one |
//!
//! Whose results they are is decided elsewhere: a file's own word about it is a [`Hint`].

mod archive;
mod card;
mod folder;
mod hub;
mod inspect;
mod join;
mod json;
mod lighteval;
mod lm_eval;
mod table;
mod trainer;

use std::collections::BTreeMap;

use super::config::{self, Texts};
use crate::model::{Claimed, Harness, Metric, Reporter, Task};

pub use folder::{gather, is_beside};
pub use join::join;
use json::{Json, Keep};

/// Bytes of a document that is read into memory. Without samples a results file has some kilobytes.
pub const MAX_TEXT: usize = 64 << 20;

/// Bytes of an archive, of which one member is read. It holds the samples, too.
pub const MAX_ARCHIVE: usize = 256 << 20;

/// Bytes of YAML: the head of a card, or a file of the Hub.
const MAX_HEAD: usize = 1 << 20;

/// Why results could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not JSON.
    #[error("`{name}`, byte {at}: expected {expected}")]
    Syntax {
        /// The file.
        name: String,
        /// Offset.
        at: usize,
        /// What would have to stand there.
        expected: &'static str,
    },
    /// An object has two members of one name, of which readers take either.
    #[error("`{name}`: `{key}` stands twice in one object")]
    Duplicate {
        /// The file.
        name: String,
        /// The member.
        key: String,
    },
    /// Nested deeper than any results are.
    #[error("`{name}` is nested more than {limit} levels deep")]
    TooDeep {
        /// The file.
        name: String,
        /// The most allowed.
        limit: usize,
    },
    /// More bytes than are read.
    #[error("`{name}` is larger than the {} MiB that are read of results", limit >> 20)]
    TooLarge {
        /// The file.
        name: String,
        /// The most allowed.
        limit: usize,
    },
    /// More of something than any results have.
    #[error("`{name}` holds more than {limit} {what}")]
    TooMany {
        /// The file.
        name: String,
        /// Of what.
        what: &'static str,
        /// The most allowed.
        limit: usize,
    },
    /// The document is not an object.
    #[error("`{name}` holds no JSON object at its top")]
    NotAnObject {
        /// The file.
        name: String,
    },
    /// An archive that is none, is damaged, or holds something else.
    #[error("`{name}`: {what}")]
    Archive {
        /// The file.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// A table that is none.
    #[error("`{name}`: {what}")]
    Table {
        /// The file.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// YAML that is none.
    #[error(transparent)]
    Yaml(#[from] config::Error),
    /// An evaluation that failed or has not ended: there is nothing that it found.
    #[error("`{name}` has no results: its status is {status}{}", because(reason.as_deref()))]
    NoResults {
        /// The file.
        name: String,
        /// As the harness calls it.
        status: String,
        /// What the harness says.
        reason: Option<String>,
    },
    /// A document without claims.
    #[error("`{name}` claims nothing: it has not {wanted}")]
    NoClaims {
        /// The file.
        name: String,
        /// What would have to stand there.
        wanted: &'static str,
    },
    /// A path leads nowhere.
    #[error("`{path}` leads to nothing: there is no `{step}`")]
    NoSuchPath {
        /// The path.
        path: String,
        /// The part that is not there.
        step: String,
    },
    /// A path leads to something else than a number.
    #[error("`{path}` leads to {found}, not to a number")]
    NotANumber {
        /// The path.
        path: String,
        /// What is there.
        found: &'static str,
    },
    /// A row that a path names twice.
    #[error("two rows begin with `{row}`")]
    TwoRows {
        /// Its first value.
        row: String,
    },
    /// Two files say different things of one.
    #[error("`{first}` and `{second}` differ in {what}")]
    Conflict {
        /// In what.
        what: String,
        /// One file.
        first: String,
        /// The other.
        second: String,
    },
    /// A directory without results.
    #[error("`{name}` holds no results of a harness that is known here")]
    NoneInFolder {
        /// The directory.
        name: String,
    },
    /// A directory that cannot be listed.
    #[error("`{name}` cannot be listed")]
    List {
        /// The directory.
        name: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

fn because(reason: Option<&str>) -> String {
    // A harness's message may be a page; its first line says what happened.
    let line = reason.and_then(|reason| reason.lines().next()).unwrap_or_default();
    let short: String = line.chars().take(120).collect();
    if short.is_empty() { String::new() } else { format!(" ({short})") }
}

/// What a file says about what was evaluated. It binds nothing: a path may hold other bytes by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// A path, or a name in a registry, as the harness was given it.
    Name(String),
    /// A commit of a repository of weights.
    Commit(String),
    /// SHA-256 of a file of weights, in hex.
    Sha256(String),
}

/// What an evaluation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results {
    /// The metrics by ascending name; none if the file has no known place for them.
    pub metrics: Vec<Metric>,
    /// What was evaluated on, by ascending name; none where the file does not say.
    pub tasks: Vec<Task>,
    /// Why the evaluation covers part of the benchmark only, if it does.
    pub partial: Option<String>,
    /// The file's own words about what was evaluated.
    pub hints: Vec<Hint>,
    /// Name of what was evaluated on.
    pub benchmark: Option<String>,
    /// What measured.
    pub harness: Option<Harness>,
    /// How answers were made, in the harness's words but for `max_tokens`.
    pub decoding: BTreeMap<String, String>,
    /// Seeds by what they are for.
    pub seeds: BTreeMap<String, String>,
    /// Who says so, where it is no harness apart from the training.
    pub reported_by: Option<Reporter>,
    /// Whose results these are: a word of [`Results::FORMATS`].
    pub format: &'static str,
}

impl Results {
    /// All words of `format`.
    pub const FORMATS: [&'static str; 6] = ["hf-trainer", "inspect", "json", "lighteval", "lm-eval", "table"];

    fn new(format: &'static str) -> Self {
        Self {
            metrics: Vec::new(),
            tasks: Vec::new(),
            partial: None,
            hints: Vec::new(),
            benchmark: None,
            harness: None,
            decoding: BTreeMap::new(),
            seeds: BTreeMap::new(),
            reported_by: None,
            format,
        }
    }

    /// Puts metrics and tasks in their order.
    fn sorted(mut self) -> Self {
        self.metrics.sort_by(|a, b| a.name.cmp(&b.name));
        self.tasks.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }
}

/// Numbers that a document gives for a model, which nobody here has measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The claims in the order of the document, one at least.
    pub claims: Vec<Claimed>,
    /// How many more there are whose value is no number.
    pub without_number: usize,
    /// How many have a token with which somebody vouches for them.
    pub tokens: usize,
    /// `model-card` or `hub-eval-results`.
    pub format: &'static str,
}

impl Claims {
    fn new(format: &'static str) -> Self {
        Self { claims: Vec::new(), without_number: 0, tokens: 0, format }
    }
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// Results of an evaluation.
    Results(Box<Results>),
    /// Claims about a model.
    Claims(Claims),
}

/// Reads the results or claims in a file called `name`, which says what they are where the bytes do not.
pub fn read(bytes: &[u8], name: &str) -> Result<Document, Error> {
    check_size(bytes, name)?;
    let results = if archive::is(bytes) {
        inspect::read(&inspect::document(bytes, name)?, name)?
    } else if card::is(name) {
        return card::read(bytes, name).map(Document::Claims);
    } else if hub::is(name) {
        return hub::read(bytes, name).map(Document::Claims);
    } else if table::is(name) {
        table::read(bytes, name)?;
        Results::new("table")
    } else {
        let json = json::parse(bytes, name, Keep::NoSamples)?;
        if !json.is_object() {
            return Err(Error::NotAnObject { name: name.to_owned() });
        }
        match () {
            () if lm_eval::is(&json) => lm_eval::read(&json),
            () if lighteval::is(&json) => lighteval::read(&json),
            () if inspect::is(&json) => inspect::read(&json, name)?,
            () if trainer::is(name) => trainer::read(&json),
            () => trainer::read_any(&json),
        }
    };
    Ok(Document::Results(Box::new(results.sorted())))
}

/// Takes the numbers at given paths, as pairs of a metric's name and its path.
///
/// A path is the names of members and the numbers of items, joined by dots: `results.verbs.acc`. One that begins
/// with `/` is a JSON pointer, for names that hold dots themselves. In a table it is a row and a column.
pub fn select(bytes: &[u8], name: &str, paths: &[(String, String)]) -> Result<Vec<Metric>, Error> {
    check_size(bytes, name)?;
    let named = |name: &str, value: String| Metric { name: name.to_owned(), value, ..Metric::default() };
    if table::is(name) && !archive::is(bytes) {
        let table = table::read(bytes, name)?;
        return paths.iter().map(|(name, path)| Ok(named(name, table.at(path)?))).collect();
    }
    let json = if archive::is(bytes) {
        inspect::document(bytes, name)?
    } else {
        json::parse(bytes, name, Keep::All)?
    };
    let take = |(name, path): &(String, String)| match json.at(path)? {
        Json::Number(value) => Ok(named(name, value.to_string())),
        other => Err(Error::NotANumber { path: path.clone(), found: other.what() }),
    };
    paths.iter().map(take).collect()
}

/// Returns how many bytes of a file with this beginning are read.
pub fn limit(start: &[u8]) -> usize {
    if archive::is(start) { MAX_ARCHIVE } else { MAX_TEXT }
}

fn check_size(bytes: &[u8], name: &str) -> Result<(), Error> {
    let limit = limit(bytes);
    if bytes.len() > limit { Err(Error::TooLarge { name: name.to_owned(), limit }) } else { Ok(()) }
}

/// Returns the last part of a path.
fn file_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn extension(name: &str) -> Option<String> {
    file_name(name).rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase())
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Joins reasons, each once.
fn reasons(mut reasons: Vec<String>) -> Option<String> {
    // A benchmark of many tasks has as many reasons, and a few say it.
    const SHOWN: usize = 8;
    let more = reasons.len().saturating_sub(SHOWN);
    reasons.truncate(SHOWN);
    if more > 0 {
        reasons.push(format!("{more} more"));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Returns the word for a setting: harnesses have three for the number of tokens of an answer.
fn setting(key: &str) -> String {
    if matches!(key, "max_gen_toks" | "max_new_tokens") { "max_tokens".to_owned() } else { key.to_owned() }
}

/// Returns the settings of an object that are single values.
fn settings_of(json: &Json) -> Vec<(String, String)> {
    json.members().iter().filter_map(|(key, value)| Some((setting(key), value.scalar()?))).collect()
}

/// Splits `key=value,key=value`, as harnesses take arguments on the command line.
fn split_args(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|pair| pair.split_once('=')).map(|(key, value)| (key.trim(), value.trim()))
}

/// Returns the number that a YAML scalar stands for, as the text of a number of JSON.
fn number(value: &Texts) -> Option<String> {
    let text = value.text()?;
    match text {
        ".nan" | ".NaN" | ".NAN" => return Some("NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Some("Infinity".to_owned()),
        "-.inf" | "-.Inf" | "-.INF" => return Some("-Infinity".to_owned()),
        _ => {}
    }
    match json::parse(text.as_bytes(), "value", Keep::All) {
        Ok(Json::Number(number)) if &*number == text => Some(text.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(text: &str, name: &str) -> Results {
        match read(text.as_bytes(), name).unwrap() {
            Document::Results(results) => *results,
            Document::Claims(claims) => panic!("{claims:?}"),
        }
    }

    #[test]
    fn a_file_is_what_its_members_say_and_then_its_name() {
        let lm = r#"{"results": {}, "configs": {}, "versions": {}}"#;
        let light = r#"{"results": {}, "config_general": {}, "config_tasks": {}}"#;
        let log = r#"{"status": "success", "eval": {"task": "t", "model": "m"}, "results": {}}"#;
        for (text, name, format) in [
            (lm, "eval_results.json", "lm-eval"),
            (light, "x.json", "lighteval"),
            (log, "x.json", "inspect"),
            ("{\"eval_loss\": 1}", "out/eval_results.json", "hf-trainer"),
            ("{\"accuracy\": 1}", "x.json", "json"),
            ("accuracy\n1\n", "x.csv", "table"),
        ] {
            assert_eq!(results(text, name).format, format);
            assert!(Results::FORMATS.contains(&format));
        }
        assert!(matches!(read(b"[1]", "x.json"), Err(Error::NotAnObject { .. })));
    }

    #[test]
    fn metrics_come_in_the_order_of_their_names() {
        let names: Vec<_> =
            results("{\"b\": 2, \"a\": 1}", "x.json").metrics.into_iter().map(|m| m.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn only_numbers_are_selected() {
        let paths = |path: &str| [("m".to_owned(), path.to_owned())];
        let take = |text: &[u8], name: &str, path: &str| {
            select(text, name, &paths(path)).map(|mut m| m.remove(0).value).map_err(|error| error.to_string())
        };
        let text = br#"{"a": {"t": "1", "n": 1.50}, "samples": [{"score": 2}]}"#;
        assert_eq!(take(text, "r.json", "a.n").as_deref(), Ok("1.50"));
        assert_eq!(take(text, "r.json", "samples.0.score").as_deref(), Ok("2"));
        assert_eq!(take(text, "r.json", "a.t").unwrap_err(), "`a.t` leads to a text, not to a number");
        assert_eq!(take(text, "r.json", "a").unwrap_err(), "`a` leads to an object, not to a number");
        assert_eq!(take(b"acc\n0.5\n", "r.csv", "acc").as_deref(), Ok("0.5"));
    }

    #[test]
    fn giants_are_refused_before_they_are_read() {
        let giant = vec![b' '; MAX_TEXT + 1];
        assert!(matches!(read(&giant, "r.json"), Err(Error::TooLarge { limit: MAX_TEXT, .. })));
        assert!(matches!(select(&giant, "r.json", &[]), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn a_scalar_is_a_number_only_as_json_has_it() {
        let of = |text: &str| number(&Texts::Scalar { text: text.to_owned(), is_plain: true });
        assert_eq!(of("0.50").as_deref(), Some("0.50"));
        assert_eq!(of("-1e-3").as_deref(), Some("-1e-3"));
        assert_eq!((of(".nan").as_deref(), of("-.inf").as_deref()), (Some("NaN"), Some("-Infinity")));
        for bad in ["85%", ".5", "0x1f", "1_000", "first", "NaN ", " 1", "", "null"] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }
}
