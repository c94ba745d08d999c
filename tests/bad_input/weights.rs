//! Hostile weights: every claim in them is larger than the file, and none of it may cost memory.
//!
//! Each command runs under a limit of 512 MiB of address space: what is allocated by a claim ends it.

use std::fmt::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use crate::scene::{freeze, is_sound, project};
use crate::support::{LEDGER, Output, Person};

/// Runs a command with so little memory, and ends it if it hangs.
fn limited(person: &Person, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let script = "ulimit -v 524288 && exec timeout 600 \"$@\"";
    command.args(["-c", script, "sh", LEDGER]).args(args).current_dir(&person.project);
    let plain = person.command(&[]);
    command.env_clear();
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    person.said(command.env("PATH", "/usr/local/bin:/usr/bin:/bin").output().unwrap())
}

/// Checks that weights are refused for what they are, and that nothing is recorded.
fn refused(person: &Person, name: &str, why: &str) {
    let dir = format!("hostile/{name}");
    let hashed = limited(person, &["hash", "--tensors", &dir]);
    assert_eq!(hashed.code, 2, "{name}: {hashed:?}");
    let said = limited(person, &["record", "checkpoint", &dir, "--run", "none"]);
    said.fails(3, "incomplete-checkpoint");
    assert!(said.stderr.contains(why), "{name}: {}", said.stderr.get(..2000).unwrap_or(&said.stderr));
    assert!(said.stderr.len() < 4000, "{name}: {} bytes are said", said.stderr.len());
    assert_eq!(person.ok(&["ls", "checkpoints", "--ids"]), "", "{name}");
}

fn headed(length: u64, header: &[u8], data: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes()[..], header, data].concat()
}

fn tensors(header: &str) -> Vec<u8> {
    headed(header.len() as u64, header.as_bytes(), b"bbbbwwww")
}

#[test]
fn a_safetensors_header_that_claims_what_is_not_there() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let one = |shape: &str, offsets: &str| {
        tensors(&format!(r#"{{"t":{{"dtype":"U8","shape":{shape},"data_offsets":{offsets}}}}}"#))
    };
    let two = |first: &str, second: &str| {
        tensors(&format!(
            r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":{first}}},
                "b":{{"dtype":"U8","shape":[4],"data_offsets":{second}}}}}"#
        ))
    };
    let twice = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
                    "a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}"#;
    for (name, why, bytes) in [
        ("length-max", "its header claims 18446744073709551615 bytes", headed(u64::MAX, b"{}", b"")),
        ("length-beyond", "it is cut short: 99999 bytes are promised", headed(99_991, b"{}", b"")),
        ("length-limit", "its header claims 100000001 bytes", headed(100_000_001, b"{}", b"")),
        ("empty", "it is cut short: 8 bytes are promised, 0 are there", Vec::new()),
        ("overlap", "tensor `b` begins at 3, where 4 was expected", two("[0,4]", "[3,8]")),
        ("gap", "tensor `b` begins at 5, where 4 was expected", two("[0,4]", "[5,8]")),
        ("twice", "`a` stands twice", tensors(twice)),
        ("dimension", "tensor `t` has 8 bytes, which its shape", one("[9223372036854775808,2]", "[0,8]")),
        (
            "end",
            "which its shape and type do not give",
            one("[18446744073709551615]", "[0,18446744073709551615]"),
        ),
        ("past-64-bits", "its header is not valid", one("[8]", "[0,18446744073709551616]")),
        ("deep", "its header is not valid: unknown field", tensors(&"{\"a\":".repeat(200_000))),
        ("deep-shape", "its header is not valid", one(&"[".repeat(200_000), "[0,8]")),
        ("not-json", "its header is not valid", tensors("{\u{0}}")),
        ("trailing", "8 bytes follow the last tensor", tensors("{}")),
    ] {
        kim.lay(&format!("hostile/{name}/model.safetensors"), &bytes);
        refused(&kim, name, why);
    }
    is_sound(&kim, &[run]);
}

/// Lays a file whose header has this many bytes: what `pattern` repeats, between a beginning and an end.
fn lay_large(path: &Path, size: usize, begin: &str, pattern: &str, end: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = std::fs::File::create(path).unwrap();
    file.write_all_at(&(size as u64).to_le_bytes(), 0).unwrap();
    let mut header = String::with_capacity(size);
    header.push_str(begin);
    while header.len() + pattern.len() + end.len() <= size {
        header.push_str(pattern);
    }
    let blanks = size - header.len() - end.len();
    let _ = write!(header, "{}{end}", " ".repeat(blanks));
    file.write_all_at(header.as_bytes(), 8).unwrap();
}

#[test]
fn a_header_of_a_hundred_megabytes() {
    const SIZE: usize = 100_000_000;
    let (_world, kim) = project();
    let run = freeze(&kim);
    let open = r#"{"t":{"dtype":"U8","shape":["#;
    for (name, begin, pattern, end, why) in [
        ("metadata", r#"{"__metadata__":{"#, r#""a":"b","#, r#""z":"z"}}"#, ""),
        ("dimensions", open, "1,", r#"1],"data_offsets":[0,1]}}"#, "more than 64 dimensions"),
        (
            "one-name",
            "{\"",
            "n",
            r#"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#,
            "more than 400000 tensors or",
        ),
        (
            "tensors",
            "{",
            r#""t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"#,
            r#""z":0}"#,
            "more than 400000 tensors or",
        ),
    ] {
        let path = kim.project.join(format!("hostile/{name}/model.safetensors"));
        lay_large(&path, SIZE, begin, pattern, end);
        if why.is_empty() {
            let said = limited(&kim, &["hash", &format!("hostile/{name}")]);
            assert_eq!(said.code, 0, "{said:?}");
            let said = limited(&kim, &["record", "checkpoint", &format!("hostile/{name}"), "--run", "none"]);
            assert_eq!(said.code, 0, "free text of any size says nothing: {said:?}");
            std::fs::remove_file(path).unwrap();
            continue;
        }
        let said = limited(&kim, &["record", "checkpoint", &format!("hostile/{name}"), "--run", "none"]);
        said.fails(3, "incomplete-checkpoint");
        assert!(said.stderr.contains(why) && said.stderr.len() < 4000, "{name}: {said:?}");
        std::fs::remove_file(path).unwrap();
    }
    is_sound(&kim, &[run]);
}

#[test]
fn an_index_that_leads_astray() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let whole = headed(53, br#"{"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#, b"bbbbwwww");
    kim.lay("secret.safetensors", &whole);
    let secret = kim.project.join("secret.safetensors");
    let mut large = String::from("{\"weight_map\":{");
    for number in 0..400_001 {
        let _ = write!(large, "\"{number}\":\"m.safetensors\",");
    }
    large.push_str("\"z\":\"m.safetensors\"}}");
    for (name, why, index) in [
        (
            "up",
            "`../../secret.safetensors` leads out",
            r#"{"weight_map":{"w":"../../secret.safetensors"}}"#.to_owned(),
        ),
        ("root", "leads out of the directory", format!(r#"{{"weight_map":{{"w":"{}"}}}}"#, secret.display())),
        ("dot", "leads out", r#"{"weight_map":{"w":"./m.safetensors"}}"#.to_owned()),
        (
            "twice",
            "`w` stands twice",
            r#"{"weight_map":{"w":"m.safetensors","w":"n.safetensors"}}"#.to_owned(),
        ),
        ("maps", "duplicate field", r#"{"weight_map":{},"weight_map":{}}"#.to_owned()),
        ("none", "missing field", "{}".to_owned()),
        ("deep", "expected a string", format!(r#"{{"weight_map":{}"#, r#"{"a":"#.repeat(200_000))),
        (
            "absent",
            "needs one file more: `n.safetensors`",
            r#"{"weight_map":{"w":"n.safetensors"}}"#.to_owned(),
        ),
        ("lies", "names tensor `v` in `m.safetensors`", r#"{"weight_map":{"v":"m.safetensors"}}"#.to_owned()),
        ("large", "more than 400000 tensors", large),
    ] {
        kim.lay(&format!("hostile/{name}/m.safetensors"), &whole);
        kim.lay(&format!("hostile/{name}/m.safetensors.index.json"), index.as_bytes());
        refused(&kim, name, why);
    }
    is_sound(&kim, &[run]);
}

#[test]
fn archives_pickles_and_other_headers_that_claim_too_much() {
    let (_world, kim) = project();
    let run = freeze(&kim);
    let gguf = |tensors: u64, values: u64| {
        [b"GGUF\x03\0\0\0", &tensors.to_le_bytes()[..], &values.to_le_bytes()].concat()
    };
    let state = format!(r#"{{"global_step": 3, "epoch": [{}0]}}"#, "0,".repeat(10_000_000));
    kim.lay("hostile/gguf/m.gguf", &gguf(u64::MAX, 0));
    refused(&kim, "gguf", "is not a whole GGUF file: it is cut short");
    kim.lay("hostile/values/m.gguf", &gguf(0, u64::MAX));
    refused(&kim, "values", "is not a whole GGUF file: it is cut short");
    kim.lay("hostile/onnx/m.onnx", b"\x08\x0d\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
    refused(&kim, "onnx", "is not a whole ONNX file: it is cut short");
    kim.lay("hostile/zip/m.pt", b"PK\x03\x04 and no end");
    refused(&kim, "zip", "its archive has no directory at the end");
    kim.lay("hostile/pickle/m.pt", b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff");
    refused(&kim, "pickle", "is not a whole pickle file: it is cut short");
    // These are no damage: what they claim is not believed, and costs nothing.
    kim.lay("hostile/memo/m.pt", b"\x80\x02Nr\xff\xff\xff\xff.");
    kim.lay("hostile/marks/m.pt", &[&b"\x80\x02"[..], &b"(".repeat(50_000_000)].concat());
    kim.lay("hostile/state/state.json", state.as_bytes());
    kim.lay("hostile/state/m.pt", b"\x80\x02}.");
    for name in ["memo", "marks", "state"] {
        let said = limited(&kim, &["record", "checkpoint", &format!("hostile/{name}"), "--run", "none"]);
        assert_eq!(said.code, 0, "{name}: {said:?}");
        assert!(said.stderr.contains("can run any code"), "{said:?}");
        assert!(name == "state" || said.stderr.contains("too large to be looked through"), "{said:?}");
        assert!(name != "state" || said.stderr.contains("step 3"), "{said:?}");
    }
    is_sound(&kim, &[run]);
}
