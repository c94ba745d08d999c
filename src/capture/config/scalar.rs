//! What a plain YAML scalar is: by the core schema of YAML 1.2, and for whom else it is something else.
//!
//! The rules of YAML 1.1 are those of `PyYAML`, which reads nearly every training configuration; `y` and `n`,
//! booleans for the 1.1 specification only, count as well.

use super::{Problem, Value, number};

/// Reads a plain scalar by the core schema.
pub(super) fn plain(text: &str, path: impl FnOnce() -> String) -> Result<Value, Problem> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Err(not_finite(text, path)),
        _ => {}
    }
    let (negative, unsigned) = split_sign(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        Err(not_finite(text, path))
    } else if let Some(digits) = text.strip_prefix("0x").filter(|d| all(d, |b| b.is_ascii_hexdigit())) {
        number::integer_of_radix(digits, 16, false, path)
    } else if let Some(digits) = text.strip_prefix("0o").filter(|d| all(d, is_octal)) {
        number::integer_of_radix(digits, 8, false, path)
    } else if all(unsigned, |b| b.is_ascii_digit()) {
        number::integer(text, path)
    } else if is_core_float(unsigned) {
        // Rust reads `.5` and `5.` as well, and no other float that the core schema has.
        let sign = if negative { "-" } else { "" };
        number::float(&format!("{sign}{unsigned}"), path)
    } else {
        Ok(Value::Text(text.to_owned()))
    }
}

/// Tells what a YAML 1.1 reader takes a plain scalar for, if that is not what [`plain`] made of it.
pub(super) fn elsewhere(text: &str, read: &Value) -> Option<String> {
    let (negative, unsigned) = split_sign(text);
    let minus = if negative { "-" } else { "" };
    match read {
        Value::Text(_) => match text {
            "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => Some("the boolean true".to_owned()),
            "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => Some("the boolean false".to_owned()),
            _ if is_date(text) => Some("a date".to_owned()),
            _ => grouped_integer(unsigned)
                .map(|digits| format!("the integer {minus}{digits}"))
                .or_else(|| is_old_float(text).then(|| "a float".to_owned())),
        },
        // `0o17` is no number in 1.1, `017` is octal there, and `09` is neither.
        Value::Int(_) if text.starts_with("0o") => Some(quoted(text)),
        Value::Int(_) if unsigned.starts_with('0') && !unsigned.starts_with("0x") => {
            if !all(unsigned, is_octal) {
                return Some(quoted(text));
            }
            let octal = number::integer_of_radix(unsigned, 8, negative, String::new).ok()?;
            (octal != *read).then(|| octal.describe())
        }
        Value::Float(_) => (!is_old_float(text)).then(|| quoted(text)),
        _ => None,
    }
}

fn quoted(text: &str) -> String {
    format!("the text \"{text}\"")
}

fn not_finite(text: &str, path: impl FnOnce() -> String) -> Problem {
    Problem::NotFinite { path: path(), text: text.to_owned() }
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

/// Tells whether there is something, and all of it is of one sort.
fn all(text: &str, sort: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(sort)
}

fn is_octal(b: u8) -> bool {
    matches!(b, b'0'..=b'7')
}

fn digit_or_mark(b: u8) -> bool {
    b.is_ascii_digit() || b == b'_'
}

/// `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_core_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| all(text, |b| b.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, "")) => digits(whole),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(mantissa),
    };
    mantissa && exponent.is_none_or(|exponent| digits(split_sign(exponent).1))
}

/// `PyYAML`'s float: a point is needed, an exponent needs its sign, and `-.5` is none.
fn is_old_float(text: &str) -> bool {
    let unsigned = split_sign(text).1;
    if let Some((whole, fraction)) = unsigned.split_once('.')
        && whole.contains(':')
    {
        return sexagesimal(whole).is_some() && fraction.bytes().all(digit_or_mark);
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let exponent = exponent.is_none_or(|exponent| {
        exponent.starts_with(['-', '+']) && all(&exponent[1..], |b| b.is_ascii_digit())
    });
    let starts_with_digit = |text: &str| text.as_bytes().first().is_some_and(u8::is_ascii_digit);
    exponent
        && match mantissa.split_once('.') {
            Some(("", fraction)) => {
                text.starts_with('.') && starts_with_digit(fraction) && all(fraction, digit_or_mark)
            }
            Some((whole, fraction)) => {
                starts_with_digit(whole) && all(whole, digit_or_mark) && fraction.bytes().all(digit_or_mark)
            }
            None => false,
        }
}

/// Reads the integers of YAML 1.1 that 1.2 does not have: `0b101`, `1_000`, `0x_ff`, `1:30`.
fn grouped_integer(unsigned: &str) -> Option<String> {
    let radix = |digits: &str, radix: u32| {
        let digits = digits.replace('_', "");
        let fits = all(&digits, |b| char::from(b).is_digit(radix));
        let value = fits.then(|| number::integer_of_radix(&digits, radix, false, String::new).ok())??;
        if let Value::Int(digits) = value { Some(digits) } else { None }
    };
    if let Some(digits) = unsigned.strip_prefix("0b") {
        radix(digits, 2)
    } else if let Some(digits) = unsigned.strip_prefix("0x") {
        radix(digits, 16)
    } else if unsigned.contains(':') {
        if unsigned.starts_with('0') {
            return None;
        }
        sexagesimal(unsigned).map(|value| value.to_string())
    } else if unsigned.starts_with('0') {
        radix(unsigned, 8)
    } else if unsigned.starts_with(|c: char| c.is_ascii_digit()) {
        radix(unsigned, 10)
    } else {
        None
    }
}

/// Reads `1:30` and `1:02:03` as base 60; the first group may be large, the others are below 60.
fn sexagesimal(text: &str) -> Option<u128> {
    let mut groups = text.split(':');
    let first = groups.next()?;
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !all(first, digit_or_mark) {
        return None;
    }
    let mut value: u128 = first.replace('_', "").parse().ok()?;
    for group in groups {
        let part: u128 = group.parse().ok()?;
        if group.len() > 2 || !all(group, |b| b.is_ascii_digit()) || part > 59 {
            return None;
        }
        value = value.checked_mul(60)?.checked_add(part)?;
    }
    Some(value)
}

/// `2026-11-30`, alone or with a time of day behind it.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let digits = |text: &str| all(text, |b| b.is_ascii_digit());
    let day = rest.bytes().take_while(u8::is_ascii_digit).count();
    if !(year.len() == 4 && digits(year) && matches!(month.len(), 1 | 2) && digits(month)) {
        return false;
    }
    match &rest[day..] {
        "" => month.len() == 2 && day == 2,
        time => {
            let time = time.trim_start_matches(['T', 't', ' ', '\t']);
            let hour = time.bytes().take_while(u8::is_ascii_digit).count();
            matches!(day, 1 | 2)
                && time.len() < rest.len() - day
                && matches!(hour, 1 | 2)
                && time[hour..].starts_with(':')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        plain(text, String::new).unwrap()
    }

    fn other(text: &str) -> Option<String> {
        elsewhere(text, &read(text))
    }

    #[test]
    fn the_core_schema_knows_these() {
        for (text, value) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("Null", Value::Null),
            ("TRUE", Value::Bool(true)),
            ("17", Value::Int("17".into())),
            ("+017", Value::Int("17".into())),
            ("-0", Value::Int("0".into())),
            ("0xFF", Value::Int("255".into())),
            ("0o17", Value::Int("15".into())),
            ("18446744073709551617", Value::Int("18446744073709551617".into())),
            ("1e-6", Value::Float(1e-6)),
            ("1E6", Value::Float(1e6)),
            ("1.", Value::Float(1.0)),
            ("+.5", Value::Float(0.5)),
            ("-.5e+1", Value::Float(-5.0)),
            ("-0.0", Value::Float(-0.0)),
        ] {
            assert_eq!(read(text), value, "{text}");
        }
    }

    #[test]
    fn everything_else_is_text() {
        for text in [
            "yes",
            "nUll",
            "tRue",
            "NaN",
            "inf",
            "nan",
            ".",
            "-",
            "+",
            "e5",
            ".e5",
            "1e",
            "1e+",
            "0x",
            "0o8",
            "-0x1",
            "0b1",
            "1_000",
            "1:30",
            "2026-11-30",
            "1.2.3",
            "--1",
            "+-1",
            "infinity",
            "1e5.0",
            " 1",
        ] {
            assert_eq!(read(text), Value::Text(text.into()));
        }
    }

    #[test]
    fn what_is_not_finite_is_refused() {
        for text in [".nan", ".NaN", ".inf", "-.INF", "+.Inf", "1e999"] {
            assert!(matches!(plain(text, String::new), Err(Problem::NotFinite { .. })), "{text}");
        }
    }

    #[test]
    fn both_readings_are_told_when_they_differ() {
        for (text, reading) in [
            ("yes", "the boolean true"),
            ("NO", "the boolean false"),
            ("off", "the boolean false"),
            ("n", "the boolean false"),
            ("1e-6", "the text \"1e-6\""),
            ("1.0e6", "the text \"1.0e6\""),
            ("-.5", "the text \"-.5\""),
            ("0o17", "the text \"0o17\""),
            ("017", "the integer 15"),
            ("-017", "the integer -15"),
            ("09", "the text \"09\""),
            ("1_000", "the integer 1000"),
            ("-1_000", "the integer -1000"),
            ("0b101", "the integer 5"),
            ("0x_ff", "the integer 255"),
            ("-0x1F", "the integer -31"),
            ("1:30", "the integer 90"),
            ("1:02:03", "the integer 3723"),
            ("190:20:30.15", "a float"),
            ("1_0.5", "a float"),
            ("2026-11-30", "a date"),
            ("2026-11-30T18:00:00Z", "a date"),
            ("2026-1-3 18:00:00", "a date"),
        ] {
            assert_eq!(other(text).as_deref(), Some(reading), "{text}");
        }
    }

    #[test]
    fn nothing_is_told_when_they_agree() {
        for text in [
            "true",
            "null",
            "17",
            "-17",
            "0",
            "07",
            "0xff",
            "1.0",
            "1.",
            ".5",
            "1.0e-06",
            "1.5e+3",
            "-1.0",
            "text",
            "yesterday",
            "1:60",
            "1:2:99",
            "12:ab",
            "0:30",
            "2026-11",
            "2026-11-300",
            "10-20-30",
            "a_b",
            "_1",
            "1.2.3",
            "0b",
            "0b2",
            "3.11.7",
            "node-1",
            "16-mixed",
            "1e",
            "",
        ] {
            assert_eq!(other(text), None, "{text}");
        }
    }
}
