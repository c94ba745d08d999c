//! YAML to a value: one document, the core schema of YAML 1.2, anchors and merge keys.
//!
//! The parser hands over events, and the stack here is ours, so that neither depth nor aliases can exhaust the
//! machine. JSON under a YAML name is read as JSON, because a few of its escapes are no YAML.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::{Error, MAX_DEPTH, Position, Problem, Read, Step, Value, Warning, dotted, edit, json, scalar};

/// Values that all aliases of a file may stand for, and all anchored values together.
const MAX_ALIASED: usize = 1_000_000;

/// Reads one YAML document.
pub(super) fn read(text: &str, name: &str) -> Result<Read, Error> {
    if text.trim_start().starts_with(['{', '[']) {
        match json::read(text, name) {
            // What a YAML 1.1 reader makes of this JSON is worth a word all the same.
            Ok(value) => {
                let warnings = read_events(text, name).map(|read| read.warnings).unwrap_or_default();
                return Ok(Read { value, warnings });
            }
            Err(error) if !matches!(error.problem, Problem::Syntax { .. } | Problem::TooDeep) => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
    read_events(text, name)
}

fn read_events(text: &str, name: &str) -> Result<Read, Error> {
    if let Some((line, directive)) = other_version(text) {
        let directive = directive.to_owned();
        let position = Some(Position { line, column: 1 });
        return Err(Error::new(name, position, Problem::OtherVersion { directive }));
    }
    let mut builder = Builder { name, ..Builder::default() };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| refused(&error, name))?;
        let at = position(&span.start);
        builder.event(event, at).map_err(|problem| Error::new(name, Some(at), problem))?;
    }
    match builder.root {
        Some(value) => Ok(Read { value, warnings: builder.warnings }),
        None => Err(Error::new(name, None, Problem::Empty)),
    }
}

/// Says what the parser stumbled over.
pub(super) fn refused(error: &ScanError, name: &str) -> Error {
    let problem = match error.info() {
        "recursion limit exceeded" => Problem::TooDeep,
        message => Problem::Syntax { message: message.to_owned() },
    };
    Error::new(name, Some(position(error.marker())), problem)
}

pub(super) fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

/// Finds a `%YAML` line before the document that asks for anything but 1.2.
fn other_version(text: &str) -> Option<(usize, &str)> {
    let before = text
        .lines()
        .enumerate()
        .take_while(|(_, line)| line.starts_with('%') || line.starts_with('#') || line.trim().is_empty());
    let mut directives = before.filter(|(_, line)| line.starts_with("%YAML"));
    directives
        .find(|(_, line)| line.split_ascii_whitespace().nth(1) != Some("1.2"))
        .map(|(at, line)| (at + 1, line.trim_end()))
}

/// A list or map that is not closed yet.
enum Open {
    List { anchor: usize, values: Vec<Value> },
    Map { anchor: usize, values: BTreeMap<String, Value>, slot: Slot, merged: Option<Vec<Value>> },
}

/// What the next node in a map is.
enum Slot {
    Key,
    Value(String),
    Merge,
}

/// An anchored value, with what it costs to stand for it.
struct Anchored {
    value: Value,
    cost: usize,
    height: usize,
}

#[derive(Default)]
struct Builder<'a> {
    name: &'a str,
    documents: usize,
    root: Option<Value>,
    stack: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    aliased: usize,
    warnings: Vec<Warning>,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, at: Position) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Problem::SecondDocument);
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag, at),
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(tag, "seq")?;
                self.open(Open::List { anchor, values: Vec::new() }, "a list")
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(tag, "map")?;
                let (values, slot) = (BTreeMap::new(), Slot::Key);
                self.open(Open::Map { anchor, values, slot, merged: None }, "a map")
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(&mut self, open: Open, found: &str) -> Result<(), Problem> {
        if let Some(Open::Map { slot: Slot::Key, .. }) = self.stack.last() {
            return Err(Problem::NonTextKey { path: self.path(), found: found.to_owned() });
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        self.stack.push(open);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Problem> {
        let (anchor, value) = match self.stack.pop() {
            Some(Open::List { anchor, values }) => (anchor, Value::List(values)),
            Some(Open::Map { anchor, mut values, merged, .. }) => {
                // A key of the map itself stands before a merged one, and an earlier map before a later.
                for map in merged.into_iter().flatten() {
                    if let Value::Map(map) = map {
                        for (key, value) in map {
                            values.entry(key).or_insert(value);
                        }
                    }
                }
                (anchor, Value::Map(values))
            }
            None => return Ok(()),
        };
        self.remember(anchor, &value)?;
        self.place(value)
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        at: Position,
    ) -> Result<(), Problem> {
        let plain = style == ScalarStyle::Plain && tag.is_none();
        if plain
            && text == "<<"
            && let Some(Open::Map { slot: slot @ Slot::Key, merged, .. }) = self.stack.last_mut()
        {
            if merged.is_none() {
                *slot = Slot::Merge;
                return Ok(());
            }
            return Err(Problem::DuplicateKey { path: self.path_to("<<") });
        }
        let value = if plain {
            scalar::plain(text, || self.path())?
        } else if let Some(tag) = tag {
            self.tagged(text, &tag)?
        } else {
            Value::Text(text.to_owned())
        };
        if plain && let Some(elsewhere) = scalar::elsewhere(text, &value) {
            let read = match &value {
                Value::Text(text) => format!("the text \"{text}\""),
                other => other.describe(),
            };
            let (file, path) = (self.name.to_owned(), self.path());
            self.warnings.push(Warning { file, position: at, path, text: text.to_owned(), read, elsewhere });
        }
        self.remember(anchor, &value)?;
        self.place(value)
    }

    /// Reads a scalar whose tag says what it is.
    fn tagged(&self, text: &str, tag: &Tag) -> Result<Value, Problem> {
        let name = full_name(tag);
        let refuse = || Problem::Tag { path: self.path(), tag: shown(&name) };
        let core = name.strip_prefix(CORE).or((name == "!").then_some("str")).ok_or_else(refuse)?;
        if core == "str" {
            return Ok(Value::Text(text.to_owned()));
        }
        let value = scalar::plain(text, || self.path())?;
        match (core, value) {
            ("null", value @ Value::Null)
            | ("bool", value @ Value::Bool(_))
            | ("int", value @ Value::Int(_))
            | ("float", value @ Value::Float(_)) => Ok(value),
            ("float", Value::Int(digits)) => super::number::float(&digits, || self.path()),
            _ => Err(refuse()),
        }
    }

    fn check_tag(&self, tag: Option<Cow<'_, Tag>>, expected: &str) -> Result<(), Problem> {
        match tag.map(|tag| full_name(&tag)) {
            Some(name) if name.strip_prefix(CORE) != Some(expected) && name != "!" => {
                Err(Problem::Tag { path: self.path(), tag: shown(&name) })
            }
            _ => Ok(()),
        }
    }

    fn alias(&mut self, anchor: usize) -> Result<(), Problem> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(Problem::RecursiveAlias { path: self.path() });
        };
        if self.stack.len() + anchored.height > MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        // The count comes before the copy: that is what disarms an alias bomb.
        self.aliased = self.aliased.saturating_add(anchored.cost);
        if self.aliased > MAX_ALIASED {
            return Err(Problem::TooManyValues { path: self.path(), limit: MAX_ALIASED });
        }
        let value = anchored.value.clone();
        self.place(value)
    }

    fn remember(&mut self, anchor: usize, value: &Value) -> Result<(), Problem> {
        // The parser counts anchors from 1; 0 is no anchor.
        if anchor == 0 {
            return Ok(());
        }
        let (cost, height) = measure(value);
        self.aliased = self.aliased.saturating_add(cost);
        if self.aliased > MAX_ALIASED {
            return Err(Problem::TooManyValues { path: self.path(), limit: MAX_ALIASED });
        }
        self.anchors.insert(anchor, Anchored { value: value.clone(), cost, height });
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, value: Value) -> Result<(), Problem> {
        match self.stack.last_mut() {
            None => self.root = Some(value),
            Some(Open::List { values, .. }) => values.push(value),
            Some(Open::Map { values, slot, merged, .. }) => match std::mem::replace(slot, Slot::Key) {
                Slot::Value(key) => {
                    values.insert(key, value);
                }
                Slot::Merge => match mergeable(value) {
                    Ok(maps) => *merged = Some(maps),
                    Err(found) => return Err(Problem::Merge { path: self.path(), found }),
                },
                Slot::Key => match value {
                    Value::Text(key) if values.contains_key(&key) => {
                        return Err(Problem::DuplicateKey { path: self.path_to(&key) });
                    }
                    Value::Text(key) => *slot = Slot::Value(key),
                    other => {
                        return Err(Problem::NonTextKey { path: self.path(), found: other.describe() });
                    }
                },
            },
        }
        Ok(())
    }

    fn path(&self) -> String {
        let steps: Vec<Step> = self
            .stack
            .iter()
            .filter_map(|open| match open {
                Open::List { values, .. } => Some(Step::Index(values.len())),
                Open::Map { slot: Slot::Value(key), .. } => Some(Step::Key(key.clone())),
                Open::Map { .. } => None,
            })
            .collect();
        dotted(steps.iter())
    }

    fn path_to(&self, key: &str) -> String {
        let mut path = self.path();
        edit::push_key(&mut path, key);
        path
    }
}

const CORE: &str = "tag:yaml.org,2002:";

fn full_name(tag: &Tag) -> String {
    format!("{}{}", tag.handle, tag.suffix)
}

/// Writes a tag as a file does.
fn shown(name: &str) -> String {
    name.strip_prefix(CORE).map_or_else(|| name.to_owned(), |core| format!("!!{core}"))
}

/// Takes the maps of a merge key, first wins.
fn mergeable(value: Value) -> Result<Vec<Value>, &'static str> {
    match value {
        Value::Map(_) => Ok(vec![value]),
        Value::List(maps) if maps.iter().all(|map| matches!(map, Value::Map(_))) => Ok(maps),
        Value::List(_) => Err("a list with other values"),
        _ => Err("a single value"),
    }
}

/// Counts the values in a value, long texts more than once, and its levels.
fn measure(value: &Value) -> (usize, usize) {
    let of_text = |text: &str| 1 + text.len() / 64;
    let mut cost = 1;
    let mut height = 0;
    let mut add = |inner: &Value| {
        let (inner_cost, inner_height) = measure(inner);
        cost += inner_cost;
        height = height.max(inner_height);
    };
    match value {
        Value::List(values) => values.iter().for_each(&mut add),
        Value::Map(values) => {
            values.values().for_each(&mut add);
            cost += values.keys().map(|key| of_text(key)).sum::<usize>();
        }
        Value::Text(text) | Value::Int(text) => return (of_text(text), 0),
        Value::Null | Value::Bool(_) | Value::Float(_) => return (1, 0),
    }
    (cost, height + 1)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::canonical;
    use super::*;

    fn text(yaml: &str) -> String {
        String::from_utf8(canonical(&read(yaml, "x.yaml").unwrap().value)).unwrap()
    }

    fn problem(yaml: &str) -> Problem {
        read(yaml, "x.yaml").unwrap_err().problem
    }

    #[test]
    fn a_training_configuration_reads_as_written() {
        let yaml = "# comment\n---\noptim:\n  name: adamw\n  lr: 1e-3   # peak\n  betas: [0.9, 0.999]\nseed: 17\n\
                    'no': \"no\"\nempty:\ntext: |\n  two\n  lines\nfold: >-\n  one\n  line\n...\n";
        assert_eq!(
            text(yaml),
            r#"{"empty":null,"fold":"one line","no":"no","optim":{"betas":[0.9,0.999],"lr":0.001,"name":"adamw"},"seed":17,"text":"two\nlines\n"}"#
        );
    }

    #[test]
    fn json_under_a_yaml_name_is_read_with_its_own_escapes() {
        assert_eq!(
            text("{\n\t\"a\": \"\\ud83d\\ude00\\/\", \"b\": [1, 1.0]}"),
            "{\"a\":\"\u{1f600}/\",\"b\":[1,1.0]}"
        );
        let read = read("{\"lr\": 1e-06}", "x.yaml").unwrap();
        assert_eq!(read.warnings.len(), 1);
        assert!(matches!(problem("{\"a\": NaN}"), Problem::NotFinite { .. }));
        assert_eq!(text("{a: 1, b: [x, y z]}"), r#"{"a":1,"b":["x","y z"]}"#);
        assert_eq!(problem("{a: 1, a: 2}"), Problem::DuplicateKey { path: "a".into() });
    }

    #[test]
    fn keys_are_text_and_come_once() {
        assert_eq!(problem("a:\n  - b: 1\n    b: 2\n"), Problem::DuplicateKey { path: "a.0.b".into() });
        assert_eq!(problem("'a': 1\n\"a\": 2\n"), Problem::DuplicateKey { path: "a".into() });
        for (yaml, found) in [
            ("m:\n  1: x\n", "the integer 1"),
            ("m:\n  true: x\n", "the boolean true"),
            ("m:\n  1e-6: x\n", "the float 1e-06"),
            ("m:\n  ? [a]\n  : x\n", "a list"),
            ("m:\n  ~: x\n", "null"),
        ] {
            assert_eq!(problem(yaml), Problem::NonTextKey { path: "m".into(), found: found.into() });
        }
        assert_eq!(text("? a\n: 1\n!!str 1: x\n"), r#"{"1":"x","a":1}"#);
    }

    #[test]
    fn both_readings_of_a_scalar_are_told() {
        let read = read("optim:\n  lr: 1e-6\nflag: yes\non: 1\nsafe: 'yes'\n", "conf/train.yaml").unwrap();
        let told: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "conf/train.yaml:2: `optim.lr`: `1e-6` is read as the float 1e-06; a YAML 1.1 reader takes it for \
                 the text \"1e-6\"",
                "conf/train.yaml:3: `flag`: `yes` is read as the text \"yes\"; a YAML 1.1 reader takes it for the \
                 boolean true",
                "conf/train.yaml:4: `on` is read as the text \"on\"; a YAML 1.1 reader takes it for the boolean true",
            ]
        );
    }

    #[test]
    fn anchors_and_merge_keys_work_and_explicit_keys_win() {
        let yaml = "base: &b {lr: 1, wd: 2}\nmore: &m {wd: 3, eps: 4}\na:\n  lr: 9\n  <<: [*b, *m]\nb:\n  <<: *b\n  \
                    lr: 8\nc: *b\n";
        assert_eq!(
            text(yaml),
            r#"{"a":{"eps":4,"lr":9,"wd":2},"b":{"lr":8,"wd":2},"base":{"lr":1,"wd":2},"c":{"lr":1,"wd":2},"more":{"eps":4,"wd":3}}"#
        );
        assert_eq!(text("'<<': 1"), r#"{"<<":1}"#);
        assert!(matches!(problem("a:\n  <<: 1\n"), Problem::Merge { path, .. } if path == "a"));
        assert!(matches!(problem("<<: [{a: 1}, 2]\n"), Problem::Merge { .. }));
        assert_eq!(
            problem("b: &b {x: 1}\na:\n  <<: *b\n  <<: *b\n"),
            Problem::DuplicateKey { path: "a.<<".into() }
        );
        assert!(matches!(problem("a: *nowhere"), Problem::Syntax { .. }));
        assert!(matches!(problem("a: &a [*a]"), Problem::RecursiveAlias { .. }));
    }

    #[test]
    fn an_alias_bomb_is_refused_before_it_expands() {
        let mut bomb = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for level in 1..40 {
            let below = level - 1;
            let row = vec![format!("*a{below}"); 10].join(", ");
            writeln!(bomb, "a{level}: &a{level} [{row}]").unwrap();
        }
        assert!(matches!(problem(&bomb), Problem::TooManyValues { .. }));
        // One long text is a bomb as well.
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 10_000].join(", "));
        assert!(matches!(problem(&long), Problem::TooManyValues { .. }));
        // Merge keys are aliases like any other.
        let mut merges = String::from("a0: &a0 {k: v}\n");
        for level in 1..60 {
            let below = level - 1;
            writeln!(merges, "a{level}: &a{level}\n  x{level}: *a{below}\n  <<: *a{below}").unwrap();
        }
        assert!(matches!(problem(&merges), Problem::TooManyValues { .. }));
    }

    #[test]
    fn depth_ends_before_the_stack_does() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&nested(MAX_DEPTH), "x").is_ok());
        assert_eq!(problem(&nested(MAX_DEPTH + 1)), Problem::TooDeep);
        assert_eq!(problem(&"[".repeat(10_000)), Problem::TooDeep);
        assert_eq!(problem(&"{a: ".repeat(10_000)), Problem::TooDeep);
        assert_eq!(problem(&"- ".repeat(10_000)), Problem::TooDeep);
        assert!(read(&"? ".repeat(10_000), "x").is_err());
        let blocks = (0..10_000).map(|level| " ".repeat(level)).collect::<Vec<_>>().join("a:\n");
        assert_eq!(problem(&blocks), Problem::TooDeep);
        // Aliases add to the depth of where they stand.
        let half = MAX_DEPTH / 2;
        let aliased = |levels: usize| {
            format!("- &a {}\n- {}*a{}\n", nested(half), "[".repeat(levels), "]".repeat(levels))
        };
        assert!(read(&aliased(half), "x").is_ok());
        assert_eq!(problem(&aliased(half + 1)), Problem::TooDeep);
    }

    #[test]
    fn tags_outside_the_core_schema_are_refused() {
        assert_eq!(
            text(
                "a: !!str 1\nb: !!float 1\nc: !!int 0x10\nd: ! 1\ne: !!map {x: 1}\nf: !!seq [1]\ng: !!null ''\n"
            ),
            r#"{"a":"1","b":1.0,"c":16,"d":"1","e":{"x":1},"f":[1],"g":null}"#
        );
        for (yaml, tag) in [
            ("a: !!python/tuple [1, 2]", "!!python/tuple"),
            ("a: !!binary aGk=", "!!binary"),
            ("a: !!timestamp 2026-11-30", "!!timestamp"),
            ("a: !local x", "!local"),
            ("a: !!int x", "!!int"),
            ("a: !!bool 1", "!!bool"),
            ("a: !!set {x}", "!!set"),
            ("a: !<tag:example.com,2026:x> 1", "tag:example.com,2026:x"),
        ] {
            assert_eq!(problem(yaml), Problem::Tag { path: "a".into(), tag: tag.into() }, "{yaml}");
        }
    }

    #[test]
    fn a_file_is_one_document_of_yaml_1_2() {
        assert_eq!(problem("a: 1\n---\nb: 2\n"), Problem::SecondDocument);
        assert_eq!(problem("# only a comment\n"), Problem::Empty);
        assert_eq!(problem(""), Problem::Empty);
        assert_eq!(text("null"), "null");
        assert_eq!(text("%YAML 1.2\n---\na: 1\n"), r#"{"a":1}"#);
        assert_eq!(
            problem("# x\n%YAML 1.1\n---\na: yes\n"),
            Problem::OtherVersion { directive: "%YAML 1.1".into() }
        );
    }

    #[test]
    fn broken_text_is_told_with_its_line() {
        for yaml in ["a: [1, 2", "a: b: c", "a: \"x", "a: 'x\n", "- a\nb: 1", "a: @x", "a: 1\n b: 2"] {
            let error = read(yaml, "x.yaml").unwrap_err();
            assert!(matches!(error.problem, Problem::Syntax { .. }), "{yaml:?}: {error:?}");
            assert!(error.position.is_some(), "{yaml:?}");
        }
    }

    #[test]
    fn what_is_not_finite_is_named() {
        assert_eq!(problem("a:\n  - .nan\n"), Problem::NotFinite { path: "a.0".into(), text: ".nan".into() });
        assert_eq!(text("a: '.nan'"), r#"{"a":".nan"}"#);
    }
}
