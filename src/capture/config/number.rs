//! Numbers as text: integers in their one decimal form, floats as Python writes them.
//!
//! Which scalar is a number is for the readers to say.

use super::{MAX_DIGITS, Problem, Value};

/// Brings decimal digits with an optional sign into their one form.
pub(super) fn integer(text: &str, path: impl FnOnce() -> String) -> Result<Value, Problem> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = digits.trim_start_matches('0');
    if digits.len() > MAX_DIGITS {
        return Err(Problem::IntegerTooLong { path: path(), digits: digits.len() });
    }
    Ok(Value::Int(match (negative, digits.is_empty()) {
        (_, true) => "0".to_owned(),
        (true, false) => format!("-{digits}"),
        (false, false) => digits.to_owned(),
    }))
}

/// Reads digits of another radix, sign and prefix already taken off.
pub(super) fn integer_of_radix(
    digits: &str,
    radix: u32,
    negative: bool,
    path: impl FnOnce() -> String,
) -> Result<Value, Problem> {
    const LIMB: u64 = 1_000_000_000;
    // A binary digit is the least that adds to the length; the bound keeps the loop below short for any radix.
    if digits.len() > MAX_DIGITS * 4 {
        return Err(Problem::IntegerTooLong { path: path(), digits: digits.len() });
    }
    // Little-endian limbs of nine decimal digits.
    let mut limbs: Vec<u64> = vec![0];
    for digit in digits.chars().filter_map(|c| c.to_digit(radix)) {
        let mut carry = u64::from(digit);
        for limb in &mut limbs {
            let sum = *limb * u64::from(radix) + carry;
            *limb = sum % LIMB;
            carry = sum / LIMB;
        }
        if carry > 0 {
            limbs.push(carry);
        }
    }
    let digits = limbs.iter().rev().map(|limb| format!("{limb:09}")).collect::<Vec<_>>().concat();
    integer(&if negative { format!("-{digits}") } else { digits }, path)
}

/// Reads a decimal float; what no finite float comes near is refused.
pub(super) fn float(text: &str, path: impl FnOnce() -> String) -> Result<Value, Problem> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Value::Float(value)),
        _ => Err(Problem::NotFinite { path: path(), text: text.to_owned() }),
    }
}

/// Writes a float as Python's `repr` does: the shortest digits that read back, `.0` kept, and an exponent
/// below 1e-4 and from 1e16 on.
pub(super) fn python_float(value: f64) -> String {
    if !value.is_finite() {
        // The readers let none pass; Python's own spelling makes a foreign one visible.
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    // `{:e}` gives `-d.ddde-7` with the fewest digits that read back.
    let shortest = format!("{value:e}");
    let fraction =
        shortest.split('e').next().and_then(|m| m.split_once('.')).map_or(0, |(_, digits)| digits.len());
    // Between two such texts at the same distance Rust takes the larger, Python the one with the even digit.
    // Rounding to this many digits does as Python does; below a power of two it may fail to read back.
    let rounded = format!("{value:.fraction$e}");
    let text = if rounded.parse() == Ok(value) { rounded } else { shortest };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
    let digits = mantissa.replace('.', "");
    let places = exponent.unsigned_abs() as usize;
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(places - 1));
    }
    let whole = places + 1;
    match digits.split_at_checked(whole) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{digits:0<whole$}.0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Value {
        integer(text, String::new).unwrap()
    }

    #[test]
    fn integers_have_one_form() {
        assert_eq!(whole("+007"), Value::Int("7".into()));
        assert_eq!(whole("-0"), Value::Int("0".into()));
        assert_eq!(whole("-18446744073709551617"), Value::Int("-18446744073709551617".into()));
    }

    #[test]
    fn other_radices_reach_beyond_any_machine_word() {
        let of = |digits, radix, negative| integer_of_radix(digits, radix, negative, String::new).unwrap();
        assert_eq!(of("ff", 16, false), Value::Int("255".into()));
        assert_eq!(of("10000000000000001", 16, true), Value::Int("-18446744073709551617".into()));
        assert_eq!(of("17", 8, false), Value::Int("15".into()));
        assert_eq!(of("3B9ACA00", 16, false), Value::Int("1000000000".into()));
    }

    #[test]
    fn an_integer_that_python_refuses_is_refused() {
        assert!(integer(&"9".repeat(MAX_DIGITS), String::new).is_ok());
        let long = "9".repeat(MAX_DIGITS + 1);
        assert!(matches!(integer(&long, String::new), Err(Problem::IntegerTooLong { digits: 4301, .. })));
        let hex = "f".repeat(1_000_000);
        assert!(matches!(
            integer_of_radix(&hex, 16, false, String::new),
            Err(Problem::IntegerTooLong { .. })
        ));
    }

    #[test]
    fn floats_are_spelled_as_python_spells_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-6, "1.5e-06"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e100, "1e+100"),
            // Halfway between two shortest texts: the even digit.
            (3_254_727_181_448_301.0 / 4.0, "813681795362075.2"),
            (-0.000_123, "-0.000123"),
            (123.0, "123.0"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }

    #[test]
    fn a_float_beyond_the_range_is_not_infinity() {
        assert!(matches!(float("1e400", String::new), Err(Problem::NotFinite { .. })));
        assert_eq!(float("1e-400", String::new), Ok(Value::Float(0.0)));
    }
}
