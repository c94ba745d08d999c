//! YAML as texts: a scalar stays what was written, because a number's digits matter where it is a measured value.
//!
//! The bounds are those of configurations, with fewer values behind aliases: what is read so is the head of a
//! document and not a program's settings.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::{Error, MAX_DEPTH, Problem, decode, yaml};

/// Values that all aliases of a document may stand for, and all anchored values together.
const MAX_ALIASED: usize = 100_000;

/// A value of which every scalar is a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Texts {
    /// A scalar as it was written; whether it stood without quotes, so that it may be a number or null.
    Scalar {
        /// The text.
        text: String,
        /// Without quotes.
        is_plain: bool,
    },
    /// Values in order.
    List(Vec<Texts>),
    /// Values by key, in the order of the document; no key twice.
    Map(Vec<(String, Texts)>),
}

impl Texts {
    /// Returns the value of a key.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(values) => values.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the values of a list.
    pub fn items(&self) -> &[Self] {
        if let Self::List(items) = self { items } else { &[] }
    }

    /// Returns a scalar that is neither null nor empty.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar { text, is_plain } => {
                let is_nothing =
                    text.is_empty() || *is_plain && matches!(text.as_str(), "~" | "null" | "Null" | "NULL");
                (!is_nothing).then_some(text)
            }
            _ => None,
        }
    }
}

/// Reads one YAML document; `name` stands in messages.
pub fn texts(bytes: &[u8], name: &str) -> Result<Texts, Error> {
    let text = decode(bytes).map_err(|problem| Error::new(name, None, problem))?;
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| yaml::refused(&error, name))?;
        let at = yaml::position(&span.start);
        builder.event(event).map_err(|problem| Error::new(name, Some(at), problem))?;
    }
    builder.root.ok_or_else(|| Error::new(name, None, Problem::Empty))
}

enum Open {
    List { anchor: usize, values: Vec<Texts> },
    Map { anchor: usize, values: Vec<(String, Texts)>, key: Option<String>, known: HashSet<String> },
}

#[derive(Default)]
struct Builder {
    documents: usize,
    root: Option<Texts>,
    stack: Vec<Open>,
    anchors: HashMap<usize, (Texts, usize, usize)>,
    aliased: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 { Err(Problem::SecondDocument) } else { Ok(()) }
            }
            Event::Scalar(text, style, anchor, _) => {
                let is_plain = style == ScalarStyle::Plain;
                self.finish(Texts::Scalar { text: text.into_owned(), is_plain }, anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(Open::List { anchor, values: Vec::new() }),
            Event::MappingStart(anchor, _) => {
                let (values, known) = (Vec::new(), HashSet::new());
                self.open(Open::Map { anchor, values, key: None, known })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Open::List { anchor, values }) => self.finish(Texts::List(values), anchor),
                Some(Open::Map { anchor, values, .. }) => self.finish(Texts::Map(values), anchor),
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let Some((value, cost, height)) = self.anchors.get(&anchor) else {
                    return Err(Problem::RecursiveAlias { path: String::new() });
                };
                if self.stack.len() + height > MAX_DEPTH {
                    return Err(Problem::TooDeep);
                }
                // The count comes before the copy: that is what disarms an alias bomb.
                self.aliased = self.aliased.saturating_add(*cost);
                if self.aliased > MAX_ALIASED {
                    return Err(Problem::TooManyValues { path: String::new(), limit: MAX_ALIASED });
                }
                let value = value.clone();
                self.place(value)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(&mut self, open: Open) -> Result<(), Problem> {
        if let Some(Open::Map { key: None, .. }) = self.stack.last() {
            return Err(Problem::NonTextKey { path: String::new(), found: "a list or a map".to_owned() });
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        self.stack.push(open);
        Ok(())
    }

    /// Remembers a value that has an anchor, and puts it where it belongs.
    fn finish(&mut self, value: Texts, anchor: usize) -> Result<(), Problem> {
        // The parser counts anchors from 1; 0 is no anchor.
        if anchor != 0 {
            let (cost, height) = measure(&value);
            self.aliased = self.aliased.saturating_add(cost);
            if self.aliased > MAX_ALIASED {
                return Err(Problem::TooManyValues { path: String::new(), limit: MAX_ALIASED });
            }
            self.anchors.insert(anchor, (value.clone(), cost, height));
        }
        self.place(value)
    }

    fn place(&mut self, value: Texts) -> Result<(), Problem> {
        match self.stack.last_mut() {
            None => self.root = Some(value),
            Some(Open::List { values, .. }) => values.push(value),
            Some(Open::Map { values, key, known, .. }) => match (key.take(), value) {
                (Some(key), value) => values.push((key, value)),
                (None, Texts::Scalar { text, .. }) => {
                    if !known.insert(text.clone()) {
                        return Err(Problem::DuplicateKey { path: text });
                    }
                    *key = Some(text);
                }
                (None, _) => {
                    let found = "a list or a map".to_owned();
                    return Err(Problem::NonTextKey { path: String::new(), found });
                }
            },
        }
        Ok(())
    }
}

/// Counts the values in a value, long texts more than once, and its levels.
fn measure(value: &Texts) -> (usize, usize) {
    let of_text = |text: &str| 1 + text.len() / 64;
    let sum = |values: &mut dyn Iterator<Item = &Texts>| {
        values
            .map(measure)
            .fold((1, 1), |(cost, height), (inner, level)| (cost + inner, height.max(level + 1)))
    };
    match value {
        Texts::Scalar { text, .. } => (of_text(text), 0),
        Texts::List(values) => sum(&mut values.iter()),
        Texts::Map(values) => {
            let (cost, height) = sum(&mut values.iter().map(|(_, value)| value));
            (cost + values.iter().map(|(key, _)| of_text(key)).sum::<usize>(), height)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(yaml: &str) -> Problem {
        texts(yaml.as_bytes(), "x.yaml").unwrap_err().problem
    }

    #[test]
    fn scalars_stay_what_was_written() {
        let read = texts(b"a: 0.50\nb: '1'\nc: .nan\nd: null\ne: \"null\"\nf: *x\n".as_slice(), "x");
        assert!(matches!(read.unwrap_err().problem, Problem::Syntax { .. } | Problem::RecursiveAlias { .. }));
        let read = texts(b"a: &x 0.50\nb: '1'\nc: .nan\nd: null\ne: \"null\"\nf: [*x]\n", "x").unwrap();
        let text = |key: &str| read.get(key).and_then(Texts::text);
        assert_eq!((text("a"), text("b"), text("c")), (Some("0.50"), Some("1"), Some(".nan")));
        assert_eq!((text("d"), text("e")), (None, Some("null")));
        assert_eq!(read.get("f").unwrap().items()[0].text(), Some("0.50"));
    }

    #[test]
    fn bombs_depth_and_keys_twice_are_refused() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 1..12 {
            let of = format!("*a{}", n - 1);
            bomb += &format!("a{n}: &a{n} [{}]\n", vec![of; 10].join(","));
        }
        assert!(matches!(problem(&bomb), Problem::TooManyValues { .. }));
        assert_eq!(problem(&"[".repeat(100_000)), Problem::TooDeep);
        assert_eq!(problem("a: 1\n\"a\": 2\n"), Problem::DuplicateKey { path: "a".into() });
        assert!(matches!(problem("[a]: 1\n"), Problem::NonTextKey { .. }));
        assert_eq!(problem("a: 1\n--- \nb: 2\n"), Problem::SecondDocument);
        assert!(matches!(problem("a: &a [*a]\n"), Problem::RecursiveAlias { .. }));
    }
}
