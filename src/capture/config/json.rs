//! JSON text to a value: exact numbers, no key twice, nothing that RFC 8259 does not have.
//!
//! Writing JSON is done in `canonical`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{Error, Position, Problem, Step, Value, dotted, number};

/// The key under which `serde_json` hands over a number's digits, as its `arbitrary_precision` feature does.
const NUMBER: &str = "$serde_json::private::Number";

/// Reads one JSON document.
pub(super) fn read(text: &str, name: &str) -> Result<Value, Error> {
    if text.trim_ascii().is_empty() {
        return Err(Error::new(name, None, Problem::Empty));
    }
    let mut fault = Fault::default();
    let mut parser = serde_json::Deserializer::from_str(text);
    let result = Node { fault: &mut fault }.deserialize(&mut parser);
    let result = result.and_then(|value| parser.end().map(|()| value));
    result.map_err(|error| {
        let position =
            (error.line() > 0).then(|| Position { line: error.line(), column: error.column().max(1) });
        let path = dotted(fault.outwards.iter().rev());
        let problem = match fault.problem {
            Some(pending) => pending.at(path),
            None => syntax(text, position, path, &error),
        };
        Error::new(name, position, problem)
    })
}

/// What goes wrong below, noted here because a `serde` error carries text only.
#[derive(Default)]
struct Fault {
    problem: Option<Pending>,
    /// The steps to the fault, innermost first.
    outwards: Vec<Step>,
}

/// A problem whose path is known only when the error has reached the top.
enum Pending {
    Duplicate,
    Reserved,
    Number(Problem),
}

impl Pending {
    fn at(self, whole: String) -> Problem {
        match self {
            Self::Duplicate => Problem::DuplicateKey { path: whole },
            Self::Reserved => Problem::ReservedKey { path: whole, key: NUMBER.to_owned() },
            Self::Number(Problem::NotFinite { text, .. }) => Problem::NotFinite { path: whole, text },
            Self::Number(Problem::IntegerTooLong { digits, .. }) => {
                Problem::IntegerTooLong { path: whole, digits }
            }
            Self::Number(other) => other,
        }
    }
}

/// Finds out what the parser stumbled over.
fn syntax(text: &str, position: Option<Position>, path: String, error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    if message.starts_with("recursion limit exceeded") {
        return Problem::TooDeep;
    }
    if let Some(word) = position.and_then(|position| word_at(text, position))
        && matches!(word.trim_start_matches('-'), "NaN" | "Infinity")
    {
        return Problem::NotFinite { path, text: word.to_owned() };
    }
    // The position is told apart from the message.
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(said, _)| said);
    Problem::Syntax { message: message.to_owned() }
}

/// Returns the word that holds or touches a place.
fn word_at(text: &str, position: Position) -> Option<&str> {
    let line = text.split('\n').nth(position.line - 1)?;
    let inside = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-';
    let at = (position.column - 1).min(line.len());
    let bytes = line.as_bytes();
    let start = at - bytes[..at].iter().rev().take_while(|b| inside(b)).count();
    let end = at + bytes[at..].iter().take_while(|b| inside(b)).count();
    line.get(start..end)
}

/// Reads any one value.
struct Node<'a> {
    fault: &'a mut Fault,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    /// Integers of a machine word come as such, all other numbers as their digits.
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            match list.next_element_seed(Node { fault: self.fault }) {
                Ok(Some(value)) => values.push(value),
                Ok(None) => return Ok(Value::List(values)),
                Err(error) => {
                    self.fault.outwards.push(Step::Index(values.len()));
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == NUMBER {
                return map.next_value_seed(Number { fault: self.fault });
            }
            match values.entry(key) {
                Entry::Occupied(entry) => {
                    self.fault.problem = Some(Pending::Duplicate);
                    self.fault.outwards.push(Step::Key(entry.key().clone()));
                    return Err(A::Error::custom("a key appears twice"));
                }
                Entry::Vacant(entry) => match map.next_value_seed(Node { fault: self.fault }) {
                    Ok(value) => {
                        entry.insert(value);
                    }
                    Err(error) => {
                        self.fault.outwards.push(Step::Key(entry.into_key()));
                        return Err(error);
                    }
                },
            }
        }
        Ok(Value::Map(values))
    }
}

/// Reads the digits of a number, or finds that a document uses the private key itself.
struct Number<'a> {
    fault: &'a mut Fault,
}

impl<'de> DeserializeSeed<'de> for Number<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Number<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no key `{NUMBER}`")
    }

    /// Digits come as an owned string; a string in the document never does.
    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        let read = if text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
            number::float(&text, String::new)
        } else {
            number::integer(&text, String::new)
        };
        read.map_err(|problem| {
            self.fault.problem = Some(Pending::Number(problem));
            E::custom("a number is out of range")
        })
    }

    fn visit_str<E: serde::de::Error>(self, _text: &str) -> Result<Value, E> {
        self.fault.problem = Some(Pending::Reserved);
        Err(E::custom("the key is reserved"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        read(text, "x.json").unwrap()
    }

    fn problem(text: &str) -> Problem {
        read(text, "x.json").unwrap_err().problem
    }

    fn int(text: &str) -> Value {
        Value::Int(text.to_owned())
    }

    #[test]
    fn numbers_keep_their_type_and_size() {
        let expected =
            [int("18446744073709551617"), int("-5"), int("0"), Value::Float(1.0), Value::Float(1e5)];
        assert_eq!(value("[18446744073709551617, -5, -0, 1.0, 1e5]"), Value::List(expected.to_vec()));
        assert_eq!(value("-0.0"), Value::Float(-0.0));
        assert_eq!(value("0.1"), Value::Float(0.1));
    }

    #[test]
    fn text_comes_out_of_its_escapes() {
        assert_eq!(value(r#""a\u00e9\ud83d\ude00\n""#), Value::Text("a\u{e9}\u{1f600}\n".into()));
        assert!(matches!(problem(r#""\ud83d""#), Problem::Syntax { .. }));
    }

    #[test]
    fn a_key_twice_is_named_with_its_place() {
        let error = read("{\"optim\": [{\"lr\": 1,\n \"lr\": 2}]}", "conf.json").unwrap_err();
        assert_eq!(error.problem, Problem::DuplicateKey { path: "optim.0.lr".into() });
        assert_eq!(error.position.unwrap().line, 2);
        // The same key in two spellings.
        assert_eq!(problem(r#"{"a": 1, "\u0061": 2}"#), Problem::DuplicateKey { path: "a".into() });
        assert!(matches!(value(r#"{"a": {"a": 1}, "b": {"a": 1}}"#), Value::Map(_)));
    }

    #[test]
    fn what_python_writes_for_non_finite_floats_is_refused_by_name() {
        for (text, word, line) in [
            ("{\"a\": 1,\n\"lr\": NaN}", "NaN", 2),
            ("{\"lr\": Infinity}", "Infinity", 1),
            ("{\"lr\":-Infinity}", "-Infinity", 1),
        ] {
            let error = read(text, "x").unwrap_err();
            assert_eq!(error.problem, Problem::NotFinite { path: "lr".into(), text: word.into() });
            assert_eq!(error.position.unwrap().line, line);
        }
        assert_eq!(problem("[1e999]"), Problem::NotFinite { path: "0".into(), text: "1e+999".into() });
    }

    #[test]
    fn other_faults_are_told_as_the_parser_tells_them() {
        for text in ["{", "{'a': 1}", "[1,]", "nul", "{\"a\": 1} x", "[01]", "NaN1x", "// a\n1", "\"a\nb\""] {
            let problem = problem(text);
            let Problem::Syntax { message } = &problem else { panic!("{text}: {problem:?}") };
            assert!(!message.contains("line"), "{message}");
        }
        assert_eq!(problem(" \n"), Problem::Empty);
    }

    #[test]
    fn depth_ends_before_the_stack_does() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&nested(super::super::MAX_DEPTH), "x").is_ok());
        assert_eq!(problem(&nested(super::super::MAX_DEPTH + 1)), Problem::TooDeep);
        assert_eq!(problem(&"[".repeat(1_000_000)), Problem::TooDeep);
        assert_eq!(problem(&"{\"a\":".repeat(1_000_000)), Problem::TooDeep);
    }

    #[test]
    fn the_private_key_of_the_reader_cannot_smuggle_a_number() {
        for text in [
            r#"{"$serde_json::private::Number": "5"}"#,
            r#"{"\u0024serde_json::private::Number": "5"}"#,
            r#"{"$serde_json::private::Number": "\u0035"}"#,
            r#"{"b": 1, "$serde_json::private::Number": "5"}"#,
        ] {
            assert!(matches!(problem(text), Problem::ReservedKey { .. }), "{text}");
        }
        assert!(read(r#"{"$serde_json::private::Number": 5}"#, "x").is_err());
    }
}
