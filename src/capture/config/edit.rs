//! What is done with configurations: laid over each other, changed by `KEY=VALUE`, compared, and checked for
//! values that are still to be filled in.
//!
//! A path names a value: keys joined by points, list places as numbers, and a key that holds a point, a space,
//! `=` or `"` in JSON quotes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Error, MAX_DEPTH, Problem, Step, Value, Warning, canonical, dotted, yaml};

/// One value that two configurations do not share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The value's path.
    pub path: String,
    /// Its canonical text on the left; none if it is not there.
    pub left: Option<String>,
    /// Its canonical text on the right.
    pub right: Option<String>,
}

/// A value that another program would compute or ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// The value's path.
    pub path: String,
    /// Its text, with `${...}` in it or `???`.
    pub text: String,
}

/// Lays one configuration over another: maps are united, anything else is replaced.
pub fn merge(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Map(mut base), Value::Map(over)) => {
            for (key, value) in over {
                let merged = match base.remove(&key) {
                    Some(below) => merge(below, value),
                    None => value,
                };
                base.insert(key, merged);
            }
            Value::Map(base)
        }
        (_, over) => over,
    }
}

/// Sets one value by `a.b.c=VALUE`, where VALUE is a YAML scalar or flow collection.
///
/// Maps on the way are made; a list place must exist. What comes back are the texts that somebody could have
/// meant otherwise, such as `yes`.
pub fn set(value: &mut Value, assignment: &str) -> Result<Vec<Warning>, Error> {
    let refuse = |reason: String| Error::new(assignment, None, Problem::Set { reason });
    let (keys, text) = parse_path(assignment).map_err(refuse)?;
    if keys.len() > MAX_DEPTH {
        return Err(Error::new(assignment, None, Problem::TooDeep));
    }
    let read = yaml::read(text, assignment).map_err(|error| match error.problem {
        Problem::Empty => refuse("there is no value; write `null`, `''` or a text in quotes".to_owned()),
        problem => Error { position: None, problem, ..error },
    })?;
    if matches!(read.value, Value::List(_) | Value::Map(_)) && !text.trim_start().starts_with(['[', '{']) {
        return Err(refuse(format!("`{text}` reads as {}; put text in quotes", read.value.describe())));
    }
    let mut place = &mut *value;
    for (at, key) in keys.iter().enumerate() {
        let here = || if at == 0 { "the top".to_owned() } else { format!("`{}`", join(&keys[..at])) };
        place = match place {
            Value::Map(values) => {
                let last = at + 1 == keys.len();
                let missing = || if last { Value::Null } else { Value::Map(BTreeMap::new()) };
                values.entry(key.clone()).or_insert_with(missing)
            }
            Value::List(values) => {
                let length = values.len();
                let index = key.parse::<usize>().ok().filter(|index| *index < length);
                let Some(index) = index else {
                    return Err(refuse(format!("{} is a list of {length} and has no place `{key}`", here())));
                };
                &mut values[index]
            }
            other => {
                return Err(refuse(format!("{} is {} and has no key `{key}`", here(), other.describe())));
            }
        };
    }
    let levels = keys.len() + levels(&read.value);
    if levels > MAX_DEPTH {
        return Err(Error::new(assignment, None, Problem::TooDeep));
    }
    let told = matches!(read.value, Value::Text(_) | Value::List(_) | Value::Map(_));
    *place = read.value;
    // Nobody else reads this text: a number is a number, and only a word may have been meant otherwise.
    let warnings = read.warnings.into_iter().filter(|warning| told && warning.read.starts_with("the text"));
    Ok(warnings.map(|warning| Warning { path: join(&keys), ..warning }).collect())
}

/// Returns the value of the key `seed` at the top.
pub fn top_level_seed(value: &Value) -> Option<&Value> {
    match value {
        Value::Map(values) => values.get("seed"),
        _ => None,
    }
}

/// Lists what differs, in the order of paths; an integer and a float of the same size differ.
pub fn differences(left: &Value, right: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(Some(left), Some(right), &mut Vec::new(), &mut found);
    found
}

/// Refuses a configuration that holds `${...}` or `???`, naming every such value.
///
/// To be asked once all files are merged and all assignments done: any of them may fill a gap.
pub fn refuse_unresolved(value: &Value, name: &str) -> Result<(), Error> {
    let mut found = Vec::new();
    collect_unresolved(value, &mut Vec::new(), &mut found);
    if found.is_empty() { Ok(()) } else { Err(Error::new(name, None, Problem::Unresolved(found))) }
}

/// Adds a key to a path, in quotes where it would be misread.
pub(super) fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    if key.is_empty()
        || key.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '.' | '=' | '"'))
    {
        canonical::write_text(path, key);
    } else {
        path.push_str(key);
    }
}

fn join(keys: &[String]) -> String {
    let mut path = String::new();
    for key in keys {
        push_key(&mut path, key);
    }
    path
}

/// Splits `a."b.c".0=VALUE` into keys and the text of the value.
fn parse_path(assignment: &str) -> Result<(Vec<String>, &str), String> {
    let mut keys = Vec::new();
    let mut rest = assignment;
    loop {
        let after = if rest.starts_with('"') {
            let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            let Some(Ok(key)) = stream.next() else {
                return Err("a key in quotes does not end".to_owned());
            };
            keys.push(key);
            &rest[stream.byte_offset()..]
        } else {
            let end = rest.find(['.', '=']).unwrap_or(rest.len());
            let key = &rest[..end];
            if key.is_empty() || key.contains(char::is_whitespace) {
                return Err("expected `KEY=VALUE`, such as `optim.lr=0.001`".to_owned());
            }
            keys.push(key.to_owned());
            &rest[end..]
        };
        match (after.strip_prefix('='), after.strip_prefix('.')) {
            (Some(value), _) => return Ok((keys, value)),
            (None, Some(next)) => rest = next,
            (None, None) => return Err("expected `KEY=VALUE`, such as `optim.lr=0.001`".to_owned()),
        }
    }
}

/// Counts the levels of lists and maps.
fn levels(value: &Value) -> usize {
    match value {
        Value::List(values) => 1 + values.iter().map(levels).max().unwrap_or(0),
        Value::Map(values) => 1 + values.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

fn compare(left: Option<&Value>, right: Option<&Value>, path: &mut Vec<Step>, found: &mut Vec<Difference>) {
    match (left, right) {
        (Some(Value::Map(a)), Some(Value::Map(b))) => {
            // Both are sorted: one pass over the two.
            let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
            loop {
                let order = match (a.peek(), b.peek()) {
                    (None, None) => break,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some((left, _)), Some((right, _))) => left.cmp(right),
                };
                let left = if order.is_le() { a.next() } else { None };
                let right = if order.is_ge() { b.next() } else { None };
                if let Some((key, _)) = left.or(right) {
                    path.push(Step::Key(key.clone()));
                    compare(left.map(|(_, v)| v), right.map(|(_, v)| v), path, found);
                    path.pop();
                }
            }
        }
        (Some(Value::List(a)), Some(Value::List(b))) => {
            for at in 0..a.len().max(b.len()) {
                path.push(Step::Index(at));
                compare(a.get(at), b.get(at), path, found);
                path.pop();
            }
        }
        (left, right) if left != right => {
            let text = |value: &Value| String::from_utf8_lossy(&canonical::canonical(value)).into_owned();
            let (left, right) = (left.map(text), right.map(text));
            found.push(Difference { path: dotted(path.iter()), left, right });
        }
        _ => {}
    }
}

fn collect_unresolved(value: &Value, path: &mut Vec<Step>, found: &mut Vec<Unresolved>) {
    match value {
        Value::Text(text) if text == "???" || interpolates(text) => {
            found.push(Unresolved { path: dotted(path.iter()), text: text.clone() });
        }
        Value::List(values) => {
            for (at, value) in values.iter().enumerate() {
                path.push(Step::Index(at));
                collect_unresolved(value, path, found);
                path.pop();
            }
        }
        Value::Map(values) => {
            for (key, value) in values {
                path.push(Step::Key(key.clone()));
                collect_unresolved(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Finds `${` with a `}` behind it; an odd number of backslashes before it makes it plain text.
fn interpolates(text: &str) -> bool {
    text.match_indices("${").any(|(at, _)| {
        let slashes = text[..at].bytes().rev().take_while(|&b| b == b'\\').count();
        slashes % 2 == 0 && text[at..].contains('}')
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Format, read};
    use super::*;

    fn value(yaml: &str) -> Value {
        read(yaml.as_bytes(), Format::Yaml, "x").unwrap().value
    }

    fn text(value: &Value) -> String {
        String::from_utf8(canonical::canonical(value)).unwrap()
    }

    fn after(yaml: &str, assignment: &str) -> String {
        let mut value = value(yaml);
        set(&mut value, assignment).unwrap();
        text(&value)
    }

    fn refusal(yaml: &str, assignment: &str) -> String {
        let mut changed = value(yaml);
        let error = set(&mut changed, assignment).unwrap_err();
        error.to_string()
    }

    #[test]
    fn maps_unite_and_all_else_is_replaced() {
        let merged =
            merge(value("{a: {x: 1, y: 2}, b: [1, 2], c: 1}"), value("{a: {y: 3, z: 4}, b: [9], d: 5}"));
        assert_eq!(text(&merged), r#"{"a":{"x":1,"y":3,"z":4},"b":[9],"c":1,"d":5}"#);
        assert_eq!(merge(value("{a: 1}"), value("[1]")), value("[1]"));
        assert_eq!(text(&merge(value("{a: {x: 1}}"), value("{a: null}"))), r#"{"a":null}"#);
    }

    #[test]
    fn an_assignment_reads_its_value_as_yaml() {
        assert_eq!(after("{}", "optim.lr=1e-3"), r#"{"optim":{"lr":0.001}}"#);
        assert_eq!(
            after("{a: {b: [1, {c: 2}]}}", "a.b.1.c=[x, 'y, z']"),
            r#"{"a":{"b":[1,{"c":["x","y, z"]}]}}"#
        );
        assert_eq!(after("{a: 1}", "a={b: true}"), r#"{"a":{"b":true}}"#);
        assert_eq!(after("{}", "a=null"), r#"{"a":null}"#);
        assert_eq!(after("{}", "a='1'"), r#"{"a":"1"}"#);
        assert_eq!(after("{}", "a=x=y"), r#"{"a":"x=y"}"#);
        assert_eq!(after("{}", "a=https://host/x"), r#"{"a":"https://host/x"}"#);
        assert_eq!(after("{}", r#"a."b.c=".d=1"#), r#"{"a":{"b.c=":{"d":1}}}"#);
    }

    #[test]
    fn an_assignment_that_cannot_be_done_says_why() {
        for (yaml, assignment, part) in [
            ("{a: 1}", "a.b=2", "`a` is the integer 1 and has no key `b`"),
            ("{a: [1]}", "a.1=2", "`a` is a list of 1 and has no place `1`"),
            ("{a: [1]}", "a.x=2", "has no place `x`"),
            ("[1]", "a=2", "the top is a list of 1"),
            ("{}", "a", "expected `KEY=VALUE`"),
            ("{}", "=1", "expected `KEY=VALUE`"),
            ("{}", "a..b=1", "expected `KEY=VALUE`"),
            ("{}", "a=", "there is no value"),
            ("{}", "a=#fff", "there is no value"),
            ("{}", "a=b: c", "reads as a map; put text in quotes"),
            ("{}", "a=- b", "reads as a list"),
            ("{}", "a=[1", ""),
            ("{}", "\"a=1", "does not end"),
            ("{}", "a=.inf", "not a finite number"),
        ] {
            let message = refusal(yaml, assignment);
            assert!(message.starts_with(&format!("{assignment}: ")) && message.contains(part), "{message}");
        }
    }

    #[test]
    fn depth_stays_readable_for_the_json_reader() {
        let deep = vec!["a"; MAX_DEPTH].join(".");
        assert!(canonical::parse_canonical(after("{}", &format!("{deep}=1")).as_bytes(), "x").is_ok());
        let mut value = value("{}");
        assert_eq!(set(&mut value, &format!("{deep}.a=1")).unwrap_err().problem, Problem::TooDeep);
        assert_eq!(set(&mut value, &format!("{deep}=[1]")).unwrap_err().problem, Problem::TooDeep);
    }

    #[test]
    fn a_word_that_may_be_meant_otherwise_is_told() {
        let mut changed = value("{}");
        assert_eq!(set(&mut changed, "lr=1e-6").unwrap(), []);
        let told = set(&mut changed, "optim.flag=yes").unwrap();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].path, "optim.flag");
        assert_eq!(set(&mut changed, "flag='yes'").unwrap(), []);
    }

    #[test]
    fn differences_name_each_value_and_its_type() {
        let left = value("{optim: {lr: 1.0e-06, n: 20}, betas: [0.9, 0.999], gone: {x: 1}, same: 1, z: 0.0}");
        let right = value("{optim: {lr: 2.0e-06, n: 20.0}, betas: [0.9, 0.98, 1], same: 1, z: -0.0, a.b: x}");
        let lines: Vec<String> = differences(&left, &right)
            .into_iter()
            .map(|d| format!("{} {} {}", d.path, d.left.unwrap_or("-".into()), d.right.unwrap_or("-".into())))
            .collect();
        assert_eq!(
            lines,
            [
                r#""a.b" - "x""#,
                "betas.1 0.999 0.98",
                "betas.2 - 1",
                r#"gone {"x":1} -"#,
                "optim.lr 1e-06 2e-06",
                "optim.n 20 20.0",
                "z 0.0 -0.0",
            ]
        );
        assert_eq!(differences(&left, &left), []);
        assert_eq!(differences(&value("1"), &value("1.0")).len(), 1);
    }

    #[test]
    fn every_value_that_is_not_final_is_listed() {
        let config = value(
            "{a: '${b}', b: [x, 'p-${oc.env:X}', '???'], c: 'lit \\${x}', d: 'back \\\\${x}', e: '$x {y}'}",
        );
        let error = refuse_unresolved(&config, "conf.yaml").unwrap_err();
        let Problem::Unresolved(found) = &error.problem else { panic!("{error:?}") };
        let paths: Vec<&str> = found.iter().map(|unresolved| unresolved.path.as_str()).collect();
        assert_eq!(paths, ["a", "b.1", "b.2", "d"]);
        assert!(error.to_string().contains("`b.2` is `???`"), "{error}");
        assert_eq!(refuse_unresolved(&value("{a: '?', b: '${', c: '????'}"), "x"), Ok(()));
    }

    #[test]
    fn the_seed_is_the_one_at_the_top() {
        assert_eq!(top_level_seed(&value("{seed: 17}")), Some(&Value::Int("17".into())));
        assert_eq!(top_level_seed(&value("{a: {seed: 17}}")), None);
        assert_eq!(top_level_seed(&value("[seed]")), None);
    }
}
