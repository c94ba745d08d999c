//! The one text of a value, profile `python-json`: what Python's `json.dumps(value, sort_keys=True,
//! separators=(",", ":"), ensure_ascii=False)` writes, byte for byte.
//!
//! It ends without a newline, so that equal values are equal bytes.

use crate::id::hex;

use super::{Error, Problem, Value, decode, json, number};

/// Writes a value in its one form.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut text = String::new();
    write(&mut text, value);
    text.into_bytes()
}

/// Reads what [`canonical`] wrote; any other spelling of the same value is refused.
pub fn parse_canonical(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let text = decode(bytes).map_err(|problem| Error::new(name, None, problem))?;
    let value = json::read(text, name)?;
    if canonical(&value) == bytes { Ok(value) } else { Err(Error::new(name, None, Problem::NotCanonical)) }
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(digits) => out.push_str(digits),
        Value::Float(value) => out.push_str(&number::python_float(*value)),
        Value::Text(text) => write_text(out, text),
        Value::List(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(out, value);
            }
            out.push(']');
        }
        Value::Map(values) => {
            out.push('{');
            // The map's order is that of UTF-8 bytes, which is the order of code points.
            for (at, (key, value)) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(out, key);
                out.push(':');
                write(out, value);
            }
            out.push('}');
        }
    }
}

/// Writes text in quotes, with the few escapes that JSON demands.
pub(super) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                // The control characters are all below 0x20.
                out.push_str("\\u00");
                out.push_str(&hex(&[c as u8]));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::{Format, read};
    use super::*;

    fn text(json: &str) -> String {
        let value = read(json.as_bytes(), Format::Json, "x").unwrap().value;
        String::from_utf8(canonical(&value)).unwrap()
    }

    #[test]
    fn keys_are_sorted_by_code_point_and_spaces_go() {
        // U+FFFD sorts before U+1F600 by code point, and after it by UTF-16 unit.
        assert_eq!(
            text("{\"\u{1f600}\": 1, \"\u{fffd}\": 2, \"b\": [1.0, 1],\n \"B\": null, \"\": true}"),
            "{\"\":true,\"B\":null,\"b\":[1.0,1],\"\u{fffd}\":2,\"\u{1f600}\":1}"
        );
    }

    #[test]
    fn only_what_must_be_escaped_is() {
        assert_eq!(
            text(r#""\u0000\u001f\u007f\u2028\"\\\/\b\f\n\r\t""#),
            "\"\\u0000\\u001f\u{7f}\u{2028}\\\"\\\\/\\b\\f\\n\\r\\t\""
        );
    }

    #[test]
    fn only_the_one_form_is_read_back() {
        let one = br#"{"a":[1,1.0,-0.0,1e-06],"b":"x"}"#;
        let value = parse_canonical(one, "frozen-config.json").unwrap();
        assert_eq!(canonical(&value), one);
        for other in [
            r#"{"a":[1,1.0,-0.0,0.000001],"b":"x"}"#,
            r#"{"b":"x","a":[1,1.0,-0.0,1e-06]}"#,
            r#"{"a":[1,1.0,-0.0,1e-06],"b":"\u0078"}"#,
            "{\"a\":[1,1.0,-0.0,1e-06],\"b\":\"x\"}\n",
            "-0",
            "1.00",
        ] {
            let error = parse_canonical(other.as_bytes(), "frozen-config.json").unwrap_err();
            assert_eq!(error.problem, Problem::NotCanonical, "{other}");
        }
    }
}
