//! TOML text to a value: dates become their text, and everything else keeps its type.

use std::collections::BTreeMap;

use ::toml::Spanned;
use ::toml::de::{DeInteger, DeTable, DeValue};

use super::{Error, MAX_DEPTH, Position, Problem, Step, Value, dotted, number};

/// Reads one TOML document.
pub(super) fn read(text: &str, name: &str) -> Result<Value, Error> {
    let table = DeTable::parse(text).map_err(|error| {
        let position = error.span().map(|span| Position::of_offset(text, span.start));
        let message = error.message();
        let problem = if message.contains("recurs") {
            Problem::TooDeep
        } else {
            Problem::Syntax { message: message.trim_end().replace('\n', "; ") }
        };
        Error::new(name, position, problem)
    })?;
    let mut reader = Reader { path: Vec::new() };
    reader
        .table(table.get_ref())
        .map_err(|(at, problem)| Error::new(name, at.map(|at| Position::of_offset(text, at)), problem))
}

/// A problem with the byte where it was met.
type Fault = (Option<usize>, Problem);

struct Reader {
    path: Vec<Step>,
}

impl Reader {
    fn table(&mut self, table: &DeTable<'_>) -> Result<Value, Fault> {
        let mut values = BTreeMap::new();
        for (key, value) in table {
            self.path.push(Step::Key(key.get_ref().to_string()));
            values.insert(key.get_ref().to_string(), self.value(value)?);
            self.path.pop();
        }
        Ok(Value::Map(values))
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>) -> Result<Value, Fault> {
        // Headers and dotted keys add to the nesting that the parser limits.
        if self.path.len() > MAX_DEPTH {
            return Err((Some(value.span().start), Problem::TooDeep));
        }
        let path = || dotted(self.path.iter());
        let read = match value.get_ref() {
            DeValue::String(text) => Ok(Value::Text(text.to_string())),
            DeValue::Boolean(value) => Ok(Value::Bool(*value)),
            // A date has no JSON form; its text is RFC 3339.
            DeValue::Datetime(date) => Ok(Value::Text(date.to_string())),
            DeValue::Float(float) => number::float(float.as_str(), path),
            DeValue::Integer(integer) => whole(integer, path),
            DeValue::Array(array) => {
                let mut values = Vec::new();
                for item in array {
                    self.path.push(Step::Index(values.len()));
                    values.push(self.value(item)?);
                    self.path.pop();
                }
                return Ok(Value::List(values));
            }
            DeValue::Table(table) => return self.table(table),
        };
        read.map_err(|problem| (Some(value.span().start), problem))
    }
}

/// Reads an integer of any size, as Python's reader does.
fn whole(integer: &DeInteger<'_>, path: impl FnOnce() -> String) -> Result<Value, Problem> {
    match integer.radix() {
        10 => number::integer(integer.as_str(), path),
        radix => number::integer_of_radix(integer.as_str(), radix, false, path),
    }
}

#[cfg(test)]
mod tests {
    use super::super::canonical;
    use super::*;

    fn text(toml: &str) -> String {
        String::from_utf8(canonical(&read(toml, "x.toml").unwrap())).unwrap()
    }

    fn problem(toml: &str) -> Problem {
        read(toml, "x.toml").unwrap_err().problem
    }

    #[test]
    fn every_type_has_its_value() {
        let toml = "steps = 1_000\nmask = 0xff\nlr = 1e-6\none = 1.0\nzero = -0.0\nday = 2026-11-30\n\
                    at = 2026-11-30T18:00:00Z\nb = true\n[model]\nh = [1, 2]\n[[arm]]\nn = 'a'\n[[arm]]\nn = 'b'\n";
        assert_eq!(
            text(toml),
            r#"{"arm":[{"n":"a"},{"n":"b"}],"at":"2026-11-30T18:00:00Z","b":true,"day":"2026-11-30","lr":1e-06,"mask":255,"model":{"h":[1,2]},"one":1.0,"steps":1000,"zero":-0.0}"#
        );
        assert_eq!(text(""), "{}");
        assert_eq!(text("big = 18446744073709551617"), r#"{"big":18446744073709551617}"#);
        assert_eq!(text("half = 1_0.2_5\nneg = -1_7\nbits = 0b1_01"), r#"{"bits":5,"half":10.25,"neg":-17}"#);
    }

    #[test]
    fn what_is_not_finite_is_named_with_its_line() {
        let error = read("[optim]\nclip = inf\n", "run.toml").unwrap_err();
        assert_eq!(error.problem, Problem::NotFinite { path: "optim.clip".into(), text: "inf".into() });
        assert_eq!(error.position.unwrap().line, 2);
        assert!(matches!(problem("a = [1.0, nan]"), Problem::NotFinite { path, .. } if path == "a.1"));
        assert!(matches!(problem("a = 1e999"), Problem::NotFinite { .. }));
    }

    #[test]
    fn a_key_twice_and_broken_lines_are_refused() {
        let error = read("a = 1\nlr = 1\nlr = 2\n", "run.toml").unwrap_err();
        assert_eq!(error.position.unwrap().line, 3);
        assert!(matches!(error.problem, Problem::Syntax { .. }));
        assert!(error.to_string().starts_with("run.toml:3: "), "{error}");
        assert!(!error.to_string().contains('\n'));
        assert!(matches!(problem("a = "), Problem::Syntax { .. }));
    }

    #[test]
    fn depth_ends_before_the_stack_does() {
        assert_eq!(problem(&format!("a = {}", "[".repeat(100_000))), Problem::TooDeep);
        let keys = vec!["a"; 70].join(".");
        assert_eq!(problem(&format!("[{keys}]\n{keys} = 1")), Problem::TooDeep);
        let keys = vec!["a"; 60].join(".");
        assert!(read(&format!("[{keys}]\n{keys} = 1"), "x").is_ok());
        assert!(read(&format!("{} = 1", vec!["a"; 100_000].join(".")), "x").is_err());
    }
}
