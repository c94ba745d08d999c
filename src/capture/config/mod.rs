//! Configuration files as one kind of value, whatever format they are written in.
//!
//! Three readers (JSON, YAML 1.2, TOML) end in one [`Value`], which has one [`canonical`] text: the JSON that
//! Python reads back equal in value and type. The rule for every reader: what two programs could read in two
//! ways is refused, or at least told. No variable is expanded and nothing is printed here, and the only file
//! name that occurs is the one to put into messages.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

mod canonical;
mod edit;
pub mod hydra;
mod json;
mod number;
mod scalar;
mod texts;
mod toml;
mod yaml;

pub use canonical::{canonical, parse_canonical};
pub use edit::{Difference, Unresolved, differences, merge, refuse_unresolved, set, top_level_seed};
pub use texts::{Texts, texts};

/// Files above this many bytes are refused before they are parsed.
pub const MAX_SIZE: usize = 64 << 20;
/// Lists and maps may nest this deep in every format: as deep as the JSON reader follows.
pub const MAX_DEPTH: usize = 127;
/// Integers may have this many digits: Python refuses to read longer ones.
pub const MAX_DIGITS: usize = 4_300;

/// A configuration value.
///
/// Integers and floats are different values (`20` is not `20.0`), and so are `0.0` and `-0.0`, because a
/// program can tell them apart. Maps have text keys only; their order carries no meaning and is that of code
/// points.
#[derive(Debug, Clone)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer of any size: decimal digits without leading zeros, `-` in front of negative ones.
    Int(String),
    /// A finite float.
    Float(f64),
    /// Text.
    Text(String),
    /// Values in order.
    List(Vec<Value>),
    /// Values by key.
    Map(BTreeMap<String, Value>),
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) | (Self::Text(a), Self::Text(b)) => a == b,
            // Zeros of different sign are different values; `total_cmp` tells them apart.
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b) == Ordering::Equal,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

/// The language that a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON, RFC 8259.
    Json,
    /// YAML 1.2, core schema.
    Yaml,
    /// TOML.
    Toml,
}

impl Format {
    /// Tells the format from the file name's extension.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// What it holds.
    pub value: Value,
    /// What another reader would take otherwise, in file order.
    pub warnings: Vec<Warning>,
}

/// A YAML scalar that readers of YAML 1.1, `PyYAML` among them, take for something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file, as given to [`read`].
    pub file: String,
    /// Where the scalar begins.
    pub position: Position,
    /// The key that holds it.
    pub path: String,
    /// The scalar as written.
    pub text: String,
    /// What it was read as.
    pub read: String,
    /// What a YAML 1.1 reader takes it for.
    pub elsewhere: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}`{}` is read as {}; a YAML 1.1 reader takes it for {}",
            self.file,
            self.position.line,
            Key(&self.path),
            self.text,
            self.read,
            self.elsewhere
        )
    }
}

/// A place in a file, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl Position {
    /// Finds the place of a byte.
    fn of_offset(text: &str, offset: usize) -> Self {
        let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let line = before.split(|&b| b == b'\n').count();
        Self { line, column: before.len() - line_start + 1 }
    }
}

/// Why a configuration was refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", Place(file, *position))]
pub struct Error {
    /// The file, as given to [`read`].
    pub file: String,
    /// The place, where it is known.
    pub position: Option<Position>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a configuration. A `path` is a dotted key such as `optim.betas.0`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// More than [`MAX_SIZE`] bytes.
    #[error("{size} bytes are more than the {MAX_SIZE} that a configuration may have")]
    TooLarge {
        /// Bytes found.
        size: usize,
    },
    /// Bytes that are no UTF-8.
    #[error("byte {at} does not belong to any UTF-8 text")]
    NotUtf8 {
        /// Offset of the first such byte.
        at: usize,
    },
    /// A byte order mark, which some readers skip and others refuse.
    #[error("the file begins with a byte order mark; save it as UTF-8 without one")]
    ByteOrderMark,
    /// No value at all.
    #[error("there is no value here; an empty map is written `{{}}`")]
    Empty,
    /// The format's own rules are broken.
    #[error("{message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// One key with two values.
    #[error("key `{path}` appears twice")]
    DuplicateKey {
        /// The key.
        path: String,
    },
    /// A key that is a number, a boolean, null or a collection.
    #[error("{}a key is {found}; only text can be a key, so put it in quotes", Key(path))]
    NonTextKey {
        /// The map.
        path: String,
        /// What the key is.
        found: String,
    },
    /// A key that the JSON reader needs for itself.
    #[error("{}the key `{key}` is reserved", Key(path))]
    ReservedKey {
        /// The map.
        path: String,
        /// The key.
        key: String,
    },
    /// NaN, an infinity, or digits beyond any float.
    #[error("{}`{text}` is not a finite number, and JSON has no form for it", Key(path))]
    NotFinite {
        /// The key.
        path: String,
        /// The number as written.
        text: String,
    },
    /// More than [`MAX_DIGITS`] digits.
    #[error("{}an integer of {digits} digits is longer than the {MAX_DIGITS} that Python reads", Key(path))]
    IntegerTooLong {
        /// The key.
        path: String,
        /// Digits found.
        digits: usize,
    },
    /// More than [`MAX_DEPTH`] levels.
    #[error("lists and maps nest deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// Aliases that multiply the file beyond reason.
    #[error("{}the aliases stand for more than {limit} values", Key(path))]
    TooManyValues {
        /// The key.
        path: String,
        /// The most allowed.
        limit: usize,
    },
    /// An alias inside the value that it names.
    #[error("{}an alias stands for a value that holds it", Key(path))]
    RecursiveAlias {
        /// The key.
        path: String,
    },
    /// A second YAML document.
    #[error("a second document begins; a configuration is one document")]
    SecondDocument,
    /// A `%YAML` line that asks for other rules.
    #[error("the file says `{directive}`, and it would be read as YAML 1.2")]
    OtherVersion {
        /// The line.
        directive: String,
    },
    /// A tag outside the core schema, or one that its value does not fit.
    #[error("{}the tag `{tag}` does not fit here; the tags of the YAML core schema do", Key(path))]
    Tag {
        /// The key.
        path: String,
        /// The tag.
        tag: String,
    },
    /// A merge key that has no map.
    #[error("{}`<<` merges a map or a list of maps, and this is {found}", Key(path))]
    Merge {
        /// The map that the merge key is in.
        path: String,
        /// What it has.
        found: &'static str,
    },
    /// Values that are to be computed or filled in, all of them.
    #[error("values are not final: {}", Listed(.0))]
    Unresolved(Vec<Unresolved>),
    /// A `KEY=VALUE` that cannot be done.
    #[error("{reason}")]
    Set {
        /// Why.
        reason: String,
    },
    /// Frozen JSON that is not the one form of its value.
    #[error("the text is not the canonical form of what it holds")]
    NotCanonical,
}

/// Reads a configuration; `name` stands in messages.
pub fn read(bytes: &[u8], format: Format, name: &str) -> Result<Read, Error> {
    let text = decode(bytes).map_err(|problem| Error::new(name, None, problem))?;
    match format {
        Format::Json => json::read(text, name).map(|value| Read { value, warnings: Vec::new() }),
        Format::Yaml => yaml::read(text, name),
        Format::Toml => toml::read(text, name).map(|value| Read { value, warnings: Vec::new() }),
    }
}

fn decode(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > MAX_SIZE {
        return Err(Problem::TooLarge { size: bytes.len() });
    }
    if bytes.starts_with(b"\xEF\xBB\xBF") || bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF")
    {
        return Err(Problem::ByteOrderMark);
    }
    std::str::from_utf8(bytes).map_err(|error| Problem::NotUtf8 { at: error.valid_up_to() })
}

impl Error {
    fn new(name: &str, position: Option<Position>, problem: Problem) -> Self {
        Self { file: name.to_owned(), position, problem }
    }
}

impl Value {
    /// Names the value with its type, for messages.
    fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Int(digits) => format!("the integer {digits}"),
            Self::Float(value) => format!("the float {}", number::python_float(*value)),
            Self::Text(_) => "text".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a map".to_owned(),
        }
    }
}

/// One step of a path, kept while an error travels outwards.
#[derive(Debug)]
enum Step {
    Key(String),
    Index(usize),
}

/// Writes steps, outermost first, as a dotted path.
fn dotted<'a>(steps: impl Iterator<Item = &'a Step>) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key(key) => edit::push_key(&mut path, key),
            Step::Index(at) => edit::push_key(&mut path, &at.to_string()),
        }
    }
    path
}

struct Place<'a>(&'a str, Option<Position>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(position) => write!(f, "{}:{}", self.0, position.line),
            None => f.write_str(self.0),
        }
    }
}

/// A path in front of a message; the whole document has none.
struct Key<'a>(&'a str);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "`{}`: ", self.0) }
    }
}

struct Listed<'a>(&'a [Unresolved]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, unresolved) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}`{}` is `{}`", unresolved.path, unresolved.text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_tells_the_format() {
        let of = |path: &str| Format::of(Path::new(path));
        assert_eq!(of("conf/train.yaml"), Some(Format::Yaml));
        assert_eq!(of("conf/train.YML"), Some(Format::Yaml));
        assert_eq!(of("a.json"), Some(Format::Json));
        assert_eq!(of("a.toml"), Some(Format::Toml));
        assert_eq!(of("a.json5"), None);
        assert_eq!(of("yaml"), None);
    }

    #[test]
    fn numbers_differ_when_a_program_can_tell_them_apart() {
        assert_ne!(Value::Int("20".into()), Value::Float(20.0));
        assert_ne!(Value::Float(0.0), Value::Float(-0.0));
        assert_ne!(Value::Text("1".into()), Value::Int("1".into()));
        assert_eq!(Value::Float(-0.0), Value::Float(-0.0));
    }

    #[test]
    fn an_error_reads_like_a_compiler_message() {
        let error = read(b"a: 1\noptim:\n  lr: 1\n  lr: 2\n", Format::Yaml, "conf/train.yaml").unwrap_err();
        assert_eq!(error.to_string(), "conf/train.yaml:4: key `optim.lr` appears twice");
    }

    #[test]
    fn marks_foreign_bytes_and_giants_are_refused_in_every_format() {
        for format in [Format::Json, Format::Yaml, Format::Toml] {
            let problem = |bytes: &[u8]| read(bytes, format, "x").unwrap_err().problem;
            assert_eq!(problem(b"\xEF\xBB\xBF{}"), Problem::ByteOrderMark);
            assert_eq!(problem(b"\xFF\xFE{\0}\0"), Problem::ByteOrderMark);
            assert_eq!(problem(b"a = \"\xE9\""), Problem::NotUtf8 { at: 5 });
            let giant = vec![b' '; MAX_SIZE + 1];
            assert_eq!(problem(&giant), Problem::TooLarge { size: MAX_SIZE + 1 });
        }
    }
}
