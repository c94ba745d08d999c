//! JSON as harnesses write it: numbers keep their text, and Python's bare `NaN` and `Infinity` are numbers.
//!
//! What two readers could take in two ways is refused: a key twice, and anything after the document. Memory is
//! bounded by counting values before they are kept, because one of two bytes takes some fifty here.

use std::collections::HashSet;

use super::Error;

/// Objects and arrays may nest this deep.
const MAX_DEPTH: usize = 128;

/// Values and keys that are held at a time. A results file has thousands; its samples lie beside it.
const MAX_VALUES: usize = 1_000_000;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// The text of a number.
    Number(Box<str>),
    Text(Box<str>),
    Array(Vec<Json>),
    Object(Vec<(Box<str>, Json)>),
    /// Something large that was read over.
    Skipped,
}

/// What is kept of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// All of it.
    All,
    /// All but a list or object `samples` at its top, which is checked and let go.
    NoSamples,
}

impl Json {
    pub(super) fn members(&self) -> &[(Box<str>, Self)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    pub(super) fn items(&self) -> &[Self] {
        if let Self::Array(items) = self { items } else { &[] }
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(key, _)| **key == *name).map(|(_, value)| value)
    }

    /// Returns what stands at names, each in the object of the one before it.
    pub(super) fn path(&self, names: &[&str]) -> Option<&Self> {
        names.iter().try_fold(self, |value, name| value.get(name))
    }

    /// Returns a text that is not empty.
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text).map(AsRef::as_ref).filter(|text: &&str| !text.is_empty())
        } else {
            None
        }
    }

    pub(super) fn text_at(&self, name: &str) -> Option<&str> {
        self.get(name)?.text()
    }

    pub(super) fn number(&self) -> Option<&str> {
        if let Self::Number(text) = self { Some(text) } else { None }
    }

    pub(super) fn count(&self) -> Option<u64> {
        self.number()?.parse().ok()
    }

    /// Returns a single value as a text; nothing for null, lists and objects.
    pub(super) fn scalar(&self) -> Option<String> {
        match self {
            Self::Number(text) => Some(text.to_string()),
            Self::Bool(value) => Some(value.to_string()),
            _ => self.text().map(str::to_owned),
        }
    }

    pub(super) fn what(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
            Self::Skipped => "samples",
        }
    }

    /// Follows a path: names of members and numbers of items joined by dots, or a JSON pointer (RFC 6901).
    pub(super) fn at(&self, path: &str) -> Result<&Self, Error> {
        let steps: Vec<String> = match path.strip_prefix('/') {
            Some(pointer) => {
                pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
            }
            None => path.split('.').map(str::to_owned).collect(),
        };
        steps.into_iter().try_fold(self, |value, step| {
            let next = match value {
                Self::Array(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
                other => other.get(&step),
            };
            next.ok_or_else(|| Error::NoSuchPath { path: path.to_owned(), step })
        })
    }
}

/// Reads one document.
pub(super) fn parse(bytes: &[u8], name: &str, keep: Keep) -> Result<Json, Error> {
    let mut reader = Reader { bytes, at: 0, name, held: 0, keep };
    let value = reader.value(0, false)?;
    reader.space();
    if reader.at < bytes.len() {
        return Err(reader.expected("nothing more"));
    }
    Ok(value)
}

/// Reads JSON as RFC 8259 has it, and the three bare words of Python.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    name: &'a str,
    held: usize,
    keep: Keep,
}

impl Reader<'_> {
    fn expected(&self, expected: &'static str) -> Error {
        Error::Syntax { name: self.name.to_owned(), at: self.at, expected }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    /// Steps over `word` if it stands here.
    fn take(&mut self, word: &str) -> bool {
        let is_here = self.rest().starts_with(word.as_bytes());
        self.at += if is_here { word.len() } else { 0 };
        is_here
    }

    /// Counts something that is about to be held.
    fn hold(&mut self) -> Result<(), Error> {
        self.held += 1;
        if self.held > MAX_VALUES {
            return Err(Error::TooMany { name: self.name.to_owned(), what: "values", limit: MAX_VALUES });
        }
        Ok(())
    }

    /// Reads a value; with `skip` it is checked like any other and not kept.
    fn value(&mut self, depth: usize, skip: bool) -> Result<Json, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep { name: self.name.to_owned(), limit: MAX_DEPTH });
        }
        self.space();
        if !skip {
            self.hold()?;
        }
        match self.rest().first() {
            Some(b'"') => {
                let text = self.text()?;
                Ok(if skip { Json::Skipped } else { Json::Text(text) })
            }
            Some(b'0'..=b'9') => self.number(skip),
            Some(b'-') if !self.rest().starts_with(b"-I") => self.number(skip),
            Some(b'[') => {
                self.at += 1;
                self.array(depth, skip)
            }
            Some(b'{') => {
                self.at += 1;
                self.object(depth, skip)
            }
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json, Error> {
        for word in ["NaN", "Infinity", "-Infinity"] {
            if self.take(word) {
                return Ok(Json::Number(word.into()));
            }
        }
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
        {
            if self.take(word) {
                return Ok(value);
            }
        }
        Err(self.expected("a value"))
    }

    fn array(&mut self, depth: usize, skip: bool) -> Result<Json, Error> {
        let mut items = Vec::new();
        self.space();
        if self.take("]") {
            return Ok(if skip { Json::Skipped } else { Json::Array(items) });
        }
        loop {
            let item = self.value(depth + 1, skip)?;
            if !skip {
                items.push(item);
            }
            self.space();
            if self.take("]") {
                return Ok(if skip { Json::Skipped } else { Json::Array(items) });
            }
            if !self.take(",") {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    fn object(&mut self, depth: usize, skip: bool) -> Result<Json, Error> {
        let (mut members, mut keys) = (Vec::new(), Vec::new());
        let before = self.held;
        self.space();
        if !self.take("}") {
            loop {
                self.space();
                let key = self.text()?;
                self.hold()?;
                self.space();
                if !self.take(":") {
                    return Err(self.expected("`:`"));
                }
                self.space();
                let is_large = matches!(self.rest().first(), Some(b'[' | b'{'));
                let samples = self.keep == Keep::NoSamples && depth == 0 && &*key == "samples" && is_large;
                let value = self.value(depth + 1, skip || samples)?;
                if skip {
                    keys.push(key);
                } else {
                    members.push((key, if samples { Json::Skipped } else { value }));
                }
                self.space();
                if self.take("}") {
                    break;
                }
                if !self.take(",") {
                    return Err(self.expected("`,` or `}`"));
                }
            }
        }
        let mut known = HashSet::new();
        for key in members.iter().map(|(key, _)| key).chain(&keys) {
            if !known.insert(&**key) {
                return Err(Error::Duplicate { name: self.name.to_owned(), key: key.to_string() });
            }
        }
        if skip {
            // The keys of what is read over are let go with it.
            self.held = before;
            return Ok(Json::Skipped);
        }
        Ok(Json::Object(members))
    }

    fn text(&mut self) -> Result<Box<str>, Error> {
        if self.rest().first() != Some(&b'"') {
            return Err(self.expected("a text"));
        }
        let (mut end, mut is_plain) = (self.at + 1, true);
        loop {
            match self.bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_plain = false;
                    end += 2;
                }
                Some(byte) => {
                    is_plain &= *byte >= b' ';
                    end += 1;
                }
                None => return Err(self.expected("a text that ends")),
            }
        }
        let text = if is_plain {
            std::str::from_utf8(&self.bytes[self.at + 1..end]).map(Box::from).ok()
        } else {
            // Escapes and surrogates are the JSON library's part.
            serde_json::from_slice(&self.bytes[self.at..=end]).ok()
        };
        let text = text.ok_or_else(|| self.expected("a valid text"))?;
        self.at = end + 1;
        Ok(text)
    }

    fn number(&mut self, skip: bool) -> Result<Json, Error> {
        let start = self.at;
        self.take("-");
        let digits = |reader: &mut Self| {
            let count = reader.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
            reader.at += count;
            if count == 0 { Err(reader.expected("a digit")) } else { Ok(()) }
        };
        if !self.take("0") {
            digits(self)?;
        }
        if self.take(".") {
            digits(self)?;
        }
        if self.take("e") || self.take("E") {
            let _is_signed = self.take("+") || self.take("-");
            digits(self)?;
        }
        if skip {
            return Ok(Json::Skipped);
        }
        Ok(Json::Number(String::from_utf8_lossy(&self.bytes[start..self.at]).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Json, Error> {
        parse(text.as_bytes(), "r.json", Keep::All)
    }

    #[test]
    fn numbers_keep_their_text_and_python_has_three_more() {
        let json =
            read(r#"[1.50, -0.0, 1e-6, 123456789012345678901234567890, NaN, Infinity, -Infinity]"#).unwrap();
        let texts: Vec<_> = json.items().iter().filter_map(Json::number).collect();
        assert_eq!(
            texts,
            ["1.50", "-0.0", "1e-6", "123456789012345678901234567890", "NaN", "Infinity", "-Infinity"]
        );
    }

    #[test]
    fn paths_lead_to_values() {
        let json = read(r#"{"a": {"b.c": 1.0, "d": [10, {"e": NaN}], "/": -0.0}}"#).unwrap();
        let at = |path: &str| {
            json.at(path).map(|value| value.number().unwrap().to_owned()).map_err(|e| e.to_string())
        };
        assert_eq!(at("a.d.0").as_deref(), Ok("10"));
        assert_eq!(at("a.d.1.e").as_deref(), Ok("NaN"));
        assert_eq!(at("/a/b.c").as_deref(), Ok("1.0"));
        assert_eq!(at("/a/~1").as_deref(), Ok("-0.0"));
        assert_eq!(at("a.b.c").unwrap_err(), "`a.b.c` leads to nothing: there is no `b`");
        assert_eq!(at("a.d.2").unwrap_err(), "`a.d.2` leads to nothing: there is no `2`");
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bad in [
            "",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[1,]",
            "[1 2]",
            "{\"a\":1}x",
            "{a:1}",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":.5}",
            "{\"a\":+1}",
            "{\"a\":1e}",
            "{\"a\":-}",
            "{\"a\":nan}",
            "{\"a\":-NaN}",
            "{\"a\":Infinit}",
            "{\"a\":NaN0}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"",
            "{\"a\":\"\\",
            "{\"a\":truee}",
            "\u{feff}{}",
            "a,b\n1,2\n",
            "{} {}",
        ] {
            assert!(read(bad).is_err(), "{bad:?} must be refused");
            let samples = format!("{{\"samples\": [{bad}]}}");
            let is_read = parse(samples.as_bytes(), "r", Keep::NoSamples).is_ok();
            assert!(!is_read || bad.is_empty(), "{samples:?} must be refused");
        }
        assert!(parse(b"{\"a\":\"\xff\"}", "r.json", Keep::All).is_err());
    }

    #[test]
    fn a_key_stands_once_also_in_what_is_read_over() {
        for text in ["{\"a\":1,\"\\u0061\":2}", "{\"samples\": [{\"a\":1, \"b\":[], \"a\":2}]}"] {
            for keep in [Keep::All, Keep::NoSamples] {
                let read = parse(text.as_bytes(), "r.json", keep);
                assert!(matches!(read, Err(Error::Duplicate { key, .. }) if key == "a"), "{text}");
            }
        }
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        assert!(matches!(read(&deep), Err(Error::TooDeep { .. })));
        assert!(matches!(read(&"[".repeat(1 << 20)), Err(Error::TooDeep { .. })));
        let many = format!("[0{}]", ",0".repeat(MAX_VALUES));
        assert!(matches!(read(&many), Err(Error::TooMany { .. })));
        let keys: Vec<String> = (0..=MAX_VALUES).map(|n| format!("\"{n}\":0")).collect();
        let keys = format!("{{\"samples\":{{{}}}}}", keys.join(","));
        assert!(matches!(parse(keys.as_bytes(), "r", Keep::NoSamples), Err(Error::TooMany { .. })));
    }

    #[test]
    fn samples_are_read_over_however_many_they_are() {
        let text = format!("{{\"samples\": [0{}], \"a\": 1}}", ",{\"b\":0}".repeat(MAX_VALUES));
        let json = parse(text.as_bytes(), "r", Keep::NoSamples).unwrap();
        assert_eq!(json.get("samples"), Some(&Json::Skipped));
        assert_eq!(json.get("a").and_then(Json::count), Some(1));
        // A number of that name is a number.
        let json = parse(b"{\"samples\": 40}", "r", Keep::NoSamples).unwrap();
        assert_eq!(json.get("samples").and_then(Json::count), Some(40));
    }
}
