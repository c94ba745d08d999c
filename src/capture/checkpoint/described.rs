//! What was recognised as one JSON document, which a record links to, and in words.
//!
//! Lists of files and imports may be long, so they stand in an object of their own. It describes; nothing is
//! decided by it, and a reader that cannot make sense of it loses no digest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Inside, Layout, Pickle, Role, Weights, shown};

/// The form of the document.
pub const SCHEMA: &str = "ledger.checkpoint-files/1";
/// A pickle may import any number of names; so many of one file are kept.
const MAX_IMPORTS: usize = 100;

/// The document: paths as people read them, each list in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// [`SCHEMA`].
    pub schema: String,
    /// Paths by the word of their role.
    pub roles: BTreeMap<String, Vec<String>>,
    /// Checkpoints inside that may be recorded by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<InsideText>,
    /// Files that run code when they are loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pickles: Vec<PickleText>,
    /// What the headers of files say of themselves, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The tensors, where they are known one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensors: Option<TensorsText>,
    /// Whether a configuration asks for the code that lies beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub custom_code: bool,
    /// What was wrong on the day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// What the tensors are together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorsText {
    /// How many there are.
    pub count: usize,
    /// How many elements they have.
    pub parameters: u64,
    /// The types of their elements.
    pub dtypes: Vec<String>,
}

/// A checkpoint inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsideText {
    /// Its path.
    pub path: String,
    /// A word of [`super::Layout`].
    pub layout: String,
    /// Its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// `complete` or `incomplete`.
    pub state: String,
}

/// A file that runs code when it is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickleText {
    /// Its path.
    pub path: String,
    /// What it imports beyond what tensors need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
    /// How many more it imports than are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// Whether it holds code of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub script: bool,
    /// Why its imports are not all known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks through a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Weights {
    /// Returns whose directory it is, for people; empty where the format says as much.
    pub fn whose(&self) -> String {
        match (self.layout, &self.adapter) {
            (Layout::PeftAdapter, Some(adapter)) => {
                let of = adapter.base.as_deref().unwrap_or("an unnamed model");
                format!("PEFT {} adapter of `{}`", shown(adapter.method.as_bytes()), shown(of.as_bytes()))
            }
            (Layout::Safetensors | Layout::Unknown | Layout::Gguf | Layout::Onnx, _) => String::new(),
            (layout, _) => layout.title().to_owned(),
        }
    }

    /// Returns the word of the state: whether anything is missing.
    pub fn state(&self) -> &'static str {
        state_word(self.incomplete().next().is_none())
    }

    /// Returns everything that has no field of its own in a record.
    pub fn description(&self) -> Description {
        let mut roles: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (path, role) in &self.roles {
            roles.entry(role.word().to_owned()).or_default().push(shown(path));
        }
        Description {
            schema: SCHEMA.to_owned(),
            roles,
            inside: self.inside.iter().map(inside).collect(),
            pickles: self.pickles.iter().map(pickle).collect(),
            headers: self.headers.iter().map(|(path, text)| (shown(path), text.clone())).collect(),
            tensors: self.tensors.as_ref().map(|set| TensorsText {
                count: set.count,
                parameters: set.parameters,
                dtypes: set.dtypes.iter().cloned().collect(),
            }),
            custom_code: self.has_custom_code,
            problems: self.problems.iter().map(super::Problem::text).collect(),
        }
    }

    /// Returns what a person should know before loading it, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.problems.iter().map(super::Problem::text).collect();
        let read: Vec<&Pickle> = self.pickles.iter().filter(|pickle| pickle.role.is_read()).collect();
        if let [first, rest @ ..] = &read[..] {
            let (what, they, it) = if rest.is_empty() {
                (format!("`{}` is a pickle", shown(&first.path)), "its bytes are", "it")
            } else {
                let more = rest.len();
                (format!("`{}` and {more} more are pickles", shown(&first.path)), "their bytes are", "them")
            };
            lines.push(format!("{what}: loading {it} can run any code; only {they} fingerprinted"));
        }
        for pickle in self.pickles.iter().filter(|pickle| pickle.is_script) {
            lines.push(format!("`{}` holds code that runs with the model", shown(&pickle.path)));
        }
        lines.extend(imports_in_words(&self.pickles));
        let code: Vec<&Vec<u8>> =
            self.roles.iter().filter(|(_, role)| **role == Role::Code).map(|(path, _)| path).collect();
        if self.has_custom_code {
            lines.push(
                "its configuration asks for `trust_remote_code`: code of the model runs in the loader".into(),
            );
        } else if let [first, rest @ ..] = &code[..] {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            lines.push(format!("`{}`{more} is code that a loader may run", shown(first)));
        }
        lines
    }
}

/// Says what pickles import beyond what tensors need: one line for all files with the same imports.
fn imports_in_words(pickles: &[Pickle]) -> Vec<String> {
    const NAMED: usize = 3;
    let mut by_imports: BTreeMap<(&[String], Option<&str>), Vec<&Pickle>> = BTreeMap::new();
    for pickle in pickles.iter().filter(|pickle| pickle.is_worth_a_warning()) {
        by_imports.entry((&pickle.imports, pickle.unknown.as_deref())).or_default().push(pickle);
    }
    let line = |((imports, unknown), files): ((&[String], Option<&str>), Vec<&Pickle>)| {
        let first = files.first().map(|pickle| shown(&pickle.path)).unwrap_or_default();
        let more = if files.len() > 1 { format!(" and {} more", files.len() - 1) } else { String::new() };
        let verb = if files.len() > 1 { "import" } else { "imports" };
        let named: Vec<String> =
            imports.iter().take(NAMED).map(|name| format!("`{}`", shown(name.as_bytes()))).collect();
        let rest = match imports.len().saturating_sub(NAMED) {
            0 => String::new(),
            rest => format!(" and {rest} more"),
        };
        match unknown {
            Some(why) if imports.is_empty() => {
                format!("what `{first}`{more} {verb} is not known: {why}")
            }
            Some(why) => format!(
                "`{first}`{more} {verb} {}{rest}, and what else is not known: {why}",
                named.join(", ")
            ),
            None => format!("`{first}`{more} {verb} {}{rest}, which tensors do not need", named.join(", ")),
        }
    };
    by_imports.into_iter().map(line).collect()
}

const fn state_word(is_complete: bool) -> &'static str {
    if is_complete { "complete" } else { "incomplete" }
}

fn inside(inside: &Inside) -> InsideText {
    InsideText {
        path: shown(&inside.path),
        layout: inside.layout.word().to_owned(),
        step: inside.step,
        state: state_word(inside.is_complete).to_owned(),
    }
}

fn pickle(pickle: &Pickle) -> PickleText {
    let imports: Vec<String> =
        pickle.imports.iter().take(MAX_IMPORTS).map(|name| shown(name.as_bytes())).collect();
    PickleText {
        path: shown(&pickle.path),
        more: pickle.imports.len() - imports.len(),
        imports,
        script: pickle.is_script,
        unknown: pickle.unknown.clone(),
    }
}
