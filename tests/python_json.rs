//! The canonical JSON against Python itself: what was frozen reads back equal in value and type, and both
//! write the same bytes. These tests need `python3` and fail without it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use ledger::capture::config::{Format, Value, canonical, parse_canonical, read};

/// Runs a Python program on some input and returns what it prints.
fn python(program: &str, input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("python3")
        .args(["-I", "-S", "-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("these tests compare with `python3`, which is not here");
    // The programs read all of it before they print.
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "python3 found a difference");
    output.stdout
}

/// A small generator (xorshift64*), so that every run sees the same values.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Floats of all sizes: any bits, few digits at any exponent, and the places where the notation changes.
fn floats() -> Vec<f64> {
    let mut numbers = Numbers(17);
    let mut floats =
        vec![0.0, -0.0, 5e-324, f64::MIN_POSITIVE, f64::MAX, f64::MIN, 0.1 + 0.2, 9_007_199_254_740_993.0];
    for exponent in -324..=308 {
        let power: f64 = format!("1e{exponent}").parse().unwrap();
        floats.extend([power, -power, power.next_up(), power.next_down()]);
    }
    // Below a power of two floats lie closer than above it.
    floats.extend((-1_074..=1_023).map(|exponent| 2_f64.powi(exponent)));
    for _ in 0..4_000 {
        floats.push(f64::from_bits(numbers.next()));
        let (digits, exponent) = (numbers.below(100_000), numbers.below(60));
        floats.push(format!("{digits}e-{exponent}").parse().unwrap());
        floats.push(digits as f64 * 2_f64.powi(exponent as i32));
        // Ties between two shortest texts: a few binary places behind the point.
        floats.push((numbers.next() >> 12) as f64 / 2_f64.powi(1 + numbers.below(8) as i32));
    }
    floats.retain(|float| float.is_finite());
    floats
}

#[test]
fn python_reads_each_float_back_to_the_bit_and_writes_the_same_text() {
    let floats = floats();
    let bits = floats.iter().map(|float| Value::Text(format!("{:016x}", float.to_bits()))).collect();
    let values = floats.iter().map(|float| Value::Float(*float)).collect();
    let whole =
        BTreeMap::from([("bits".to_owned(), Value::List(bits)), ("floats".to_owned(), Value::List(values))]);
    let frozen = canonical(&Value::Map(whole.clone()));
    let program = r#"
import json, struct, sys
data = sys.stdin.buffer.read()
whole = json.loads(data)
for value, bits in zip(whole["floats"], whole["bits"], strict=True):
    assert type(value) is float, value
    assert struct.pack(">d", value).hex() == bits, (value, bits)
again = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
assert again == data
print(len(whole["floats"]))
"#;
    let printed = python(program, &frozen);
    assert_eq!(String::from_utf8(printed).unwrap().trim(), floats.len().to_string());
    assert!(floats.len() > 15_000);
    assert_eq!(parse_canonical(&frozen, "frozen-config.json").unwrap(), Value::Map(whole));
}

#[test]
fn python_reads_integers_and_text_back_in_type_and_value() {
    let mut digits =
        vec!["0".to_owned(), "-1".to_owned(), "18446744073709551617".to_owned(), "9".repeat(4_300)];
    let mut numbers = Numbers(23);
    for length in 1..200 {
        let mut text = format!("-{}", 1 + numbers.below(9));
        text.extend((0..length).map(|_| char::from(b'0' + numbers.below(10) as u8)));
        digits.push(text);
    }
    let texts: Vec<String> = (0..0x3000_u32)
        .chain([0xd7ff, 0xe000, 0xfffd, 0xfffe, 0xffff, 0x1_0000, 0x1_f600, 0x10_ffff])
        .filter_map(char::from_u32)
        .map(|c| format!("{c}x"))
        .collect();
    let map = BTreeMap::from([
        ("digits".to_owned(), Value::List(digits.iter().cloned().map(Value::Text).collect())),
        ("integers".to_owned(), Value::List(digits.into_iter().map(Value::Int).collect())),
        // As keys too, so that the orders are compared.
        ("texts".to_owned(), Value::Map(texts.into_iter().map(|text| (text, Value::Bool(true))).collect())),
    ]);
    let frozen = canonical(&Value::Map(map));
    let program = r#"
import json, sys
data = sys.stdin.buffer.read()
whole = json.loads(data)
for value, digits in zip(whole["integers"], whole["digits"], strict=True):
    assert type(value) is int and str(value) == digits, digits
assert list(whole["texts"]) == sorted(whole["texts"]) and len(whole["texts"]) > 0x3000
again = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
assert again == data
"#;
    python(program, &frozen);
}

#[test]
fn what_python_writes_in_any_style_freezes_to_python_s_own_compact_text() {
    let program = r#"
import json, random
random.seed(17)
def text():
    return "".join(random.choice('ab"\\/\n\t\x00\x7f\u00e9\u2028\uffff\U0001f600${}.') for _ in range(random.randrange(6)))
def value(depth):
    kind = random.randrange(8 if depth < 4 else 6)
    if kind == 0: return random.choice([None, True, False])
    if kind == 1: return random.randrange(-10**random.randrange(1, 40), 10**random.randrange(1, 40))
    if kind == 2: return random.uniform(-1, 1) * 10.0**random.randrange(-30, 30)
    if kind == 3: return float(random.randrange(-1000, 1000))
    if kind in (4, 5): return text()
    if kind == 6: return [value(depth + 1) for _ in range(random.randrange(5))]
    return {text(): value(depth + 1) for _ in range(random.randrange(5))}
for number in range(2000):
    whole = {"x": value(0)}
    loose = json.dumps(whole, indent=random.choice([None, 2]), ensure_ascii=bool(number % 2))
    compact = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    print(json.dumps([loose, compact]))
"#;
    let printed = python(program, b"");
    let mut documents = 0;
    for line in String::from_utf8(printed).unwrap().lines() {
        let pair = read(line.as_bytes(), Format::Json, "pair").unwrap().value;
        let Value::List(pair) = pair else { panic!("{line}") };
        let [Value::Text(loose), Value::Text(compact)] = pair.as_slice() else { panic!("{line}") };
        // JSON under a YAML name is the same document.
        for format in [Format::Json, Format::Yaml] {
            let value = read(loose.as_bytes(), format, "loose").unwrap().value;
            assert_eq!(String::from_utf8(canonical(&value)).unwrap(), *compact);
        }
        documents += 1;
    }
    assert_eq!(documents, 2_000);
}
