//! Results that are no results, or would take the machine: refused in words, with half a gigabyte to do it in.

use std::io::{Cursor, Write as _};
use std::process::Command;

use zip::write::{SimpleFileOptions, ZipWriter};

use crate::configs::make_fifo;
use crate::scene::{project, refuses};
use crate::support::{LEDGER, Person, World, safetensors};

/// Memory that a refusal may take, in KiB of address space.
const LIMIT: &str = "524288";

fn evaluated() -> (World, Person) {
    let (world, kim) = project();
    kim.lay("out/model.safetensors", &safetensors(1.0));
    (world, kim)
}

/// Records a file, expects a refusal in these words, and that it took no more memory than it may.
fn is_refused(kim: &Person, name: &str, words: &str) {
    let args = ["record", "eval", name, "--subject", "out"];
    let said = refuses(kim, &args, 2, "bad-data");
    assert!(said.stderr.contains(words), "{said:?}");
    let plain = kim.command(&args);
    let mut bounded = Command::new("/bin/sh");
    let script = format!("ulimit -v {LIMIT} && exec \"$0\" \"$@\"");
    bounded.arg("-c").arg(script).arg(LEDGER).args(args).current_dir(&kim.project).env_clear();
    bounded.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let bounded = kim.said(bounded.output().unwrap());
    bounded.fails(2, "bad-data");
    assert_eq!(bounded.stderr, said.stderr);
    assert_eq!(kim.ok(&["-q", "ls", "evals", "--ids"]), "");
}

/// Writes an archive of members with their method, stated size and checksum, whatever their bytes are.
fn archive(members: &[(&str, u16, u32, u32, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, method, size, crc, data) in members {
        let place = bytes.len() as u32;
        let mut common = Vec::new();
        common.extend([20, 0, 0, 0]);
        common.extend(method.to_le_bytes());
        common.extend([0; 4]);
        common.extend(crc.to_le_bytes());
        common.extend((data.len() as u32).to_le_bytes());
        common.extend(size.to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&common);
        bytes.extend([0; 2]);
        bytes.extend(name.as_bytes());
        bytes.extend(*data);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&common);
        directory.extend([0; 12]);
        directory.extend(place.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (place, count) = (bytes.len() as u32, (members.len() as u16).to_le_bytes());
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count, count].concat());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(place.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

const STORED: u16 = 0;
const ZSTANDARD: u16 = 93;

/// A frame of Zstandard (RFC 8878) whose blocks each repeat one byte 128 KiB times.
fn repeated(blocks: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for at in 0..blocks {
        let header = ((128 << 10) << 3) | (1 << 1) | u32::from(at + 1 == blocks);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(b' ');
    }
    frame
}

#[test]
fn an_archive_that_inflates_to_gigabytes() {
    let (_world, kim) = evaluated();
    let bomb = repeated(100_000);
    assert!(bomb.len() < 1 << 20, "a megabyte stands for twelve gigabytes");
    kim.lay("log.eval", &archive(&[("header.json", ZSTANDARD, 100, 0, &bomb)]));
    is_refused(&kim, "log.eval", "larger than the 64 MiB");
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    writer.start_file("header.json", options).unwrap();
    for _ in 0..70 {
        writer.write_all(&vec![b' '; 1 << 20]).unwrap();
    }
    let bomb = writer.finish().unwrap().into_inner();
    assert!(bomb.len() < 1 << 20);
    kim.lay("deflated.eval", &bomb);
    is_refused(&kim, "deflated.eval", "larger than the 64 MiB");
}

#[test]
fn a_frame_that_wants_more_memory_than_there_is() {
    let (_world, kim) = evaluated();
    let mut frame = repeated(1);
    // The window of this frame is 1 GiB.
    frame[5] = 20 << 3;
    kim.lay("log.eval", &archive(&[("header.json", ZSTANDARD, 100, 0, &frame)]));
    is_refused(&kim, "log.eval", "header.json");
}

#[test]
fn an_archive_of_more_members_than_any_log_has() {
    let (_world, kim) = evaluated();
    // The directory is looked at before it is believed, so its entries need not lead anywhere.
    let mut bytes = b"PK\x03\x04".to_vec();
    let mut entry = b"PK\x01\x02".to_vec();
    entry.extend([0; 42]);
    bytes.extend(entry.repeat(250_000));
    bytes.extend(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff");
    bytes.extend([0; 10]);
    kim.lay("log.eval", &bytes);
    is_refused(&kim, "log.eval", "more than 200000 members");
}

#[test]
fn archives_that_are_no_log_or_not_whole() {
    let (_world, kim) = evaluated();
    let whole = br#"{"status": "success", "eval": {"task": "t", "model": "m"}, "results": {}}"#;
    let crc = crc32(whole);
    let size = whole.len() as u32;
    let good = archive(&[("header.json", STORED, size, crc, whole)]);
    let inner = archive(&[("header.json", STORED, good.len() as u32, crc32(&good), &good)]);
    for (name, bytes, words) in [
        ("torn.eval", good[..good.len() - 30].to_vec(), "torn.eval"),
        ("empty.eval", archive(&[]), "it is no log of Inspect"),
        ("other.eval", archive(&[("a.txt", STORED, size, crc, whole)]), "it is no log of Inspect"),
        ("flipped.eval", archive(&[("header.json", STORED, size, crc ^ 1, whole)]), "hecksum"),
        ("zstd.eval", archive(&[("header.json", ZSTANDARD, size, crc, b"no frame")]), "header.json"),
        ("method.eval", archive(&[("header.json", 98, size, crc, whole)]), "header.json"),
        ("nested.eval", inner, "expected a value"),
        ("short.eval", archive(&[("header.json", ZSTANDARD, size, crc, &repeated(1))]), "damaged"),
    ] {
        kim.lay(name, &bytes);
        is_refused(&kim, name, words);
    }
    // A log that stopped on the way has no header yet.
    kim.lay("begun.eval", &archive(&[("_journal/start.json", STORED, size, crc, whole)]));
    let said = refuses(&kim, &["record", "eval", "begun.eval", "--subject", "out"], 3, "no-results");
    assert!(said.stderr.contains("its status is started"), "{said:?}");
}

/// The checksum of archives, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (0_u32.wrapping_sub(crc & 1))))
    })
}

#[test]
fn files_larger_than_results_are() {
    let (_world, kim) = evaluated();
    // Holes cost no disk.
    std::fs::File::create(kim.project.join("one-line.json")).unwrap().set_len(100 << 20).unwrap();
    is_refused(&kim, "one-line.json", "larger than the 64 MiB");
    let path = kim.lay("large.eval", b"PK\x03\x04");
    std::fs::File::options().append(true).open(path).unwrap().set_len(257 << 20).unwrap();
    is_refused(&kim, "large.eval", "larger than the 256 MiB");
    let head = format!("---\nlicense: '{}'\n---\n", "x".repeat(2 << 20));
    kim.lay("README.md", head.as_bytes());
    is_refused(&kim, "README.md", "larger than the 1 MiB");
}

#[test]
fn json_that_would_take_more_memory_than_it_is_long() {
    let (_world, kim) = evaluated();
    let many = format!("{{\"a\":[0{}]}}", ",0".repeat(30 << 20));
    assert!(many.len() < 64 << 20);
    kim.lay("many.json", many.as_bytes());
    is_refused(&kim, "many.json", "more than 1000000 values");
    let keys: Vec<String> = (0..2 << 20).map(|n| format!("\"{n}\":0")).collect();
    kim.lay("keys.json", format!("{{\"samples\":{{{}}}}}", keys.join(",")).as_bytes());
    is_refused(&kim, "keys.json", "more than 1000000 values");
    kim.lay("deep.json", "[".repeat(32 << 20).as_bytes());
    is_refused(&kim, "deep.json", "nested more than 128 levels deep");
    kim.lay("table.csv", format!("a,b\n{}", "1,2\n".repeat(1 << 20)).as_bytes());
    is_refused(&kim, "table.csv", "more than 1000000 values");
}

#[test]
fn what_two_readers_could_take_in_two_ways() {
    let (_world, kim) = evaluated();
    for (name, text, words) in [
        ("twice.json", "{\"acc\": 0.1, \"acc\": 0.9}", "`acc` stands twice"),
        ("after.json", "{\"acc\": 0.1} {\"acc\": 0.9}", "expected nothing more"),
        ("list.json", "[1]", "no JSON object at its top"),
        ("twice.yaml", "- dataset: {id: a, id: b}\n  value: 1\n", "appears twice"),
        ("other.yaml", "lr: 0.1\n", "claims nothing"),
        ("README.md", "# no head\n", "claims nothing"),
        ("twice.csv", "acc,acc\n1,2\n", "`acc` stands twice"),
        ("short.csv", "acc,loss\n1\n", "short.csv"),
    ] {
        kim.lay(name, text.as_bytes());
        is_refused(&kim, name, words);
    }
    let mut bomb = "---\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..12 {
        let of = vec![format!("*a{}", n - 1); 10];
        std::fmt::Write::write_fmt(&mut bomb, format_args!("a{n}: &a{n} [{}]\n", of.join(","))).unwrap();
    }
    kim.lay("README.md", format!("{bomb}---\n").as_bytes());
    is_refused(&kim, "README.md", "the aliases stand for more than");
}

#[test]
fn results_that_are_no_file() {
    let (_world, kim) = evaluated();
    make_fifo(&kim.project.join("pipe.json"));
    let said = refuses(&kim, &["record", "eval", "pipe.json", "--subject", "out"], 2, "bad-data");
    assert!(said.stderr.contains("not a regular file"), "{said:?}");
    // What lies beside results is stored as it is read, and a FIFO would never end.
    kim.lay("results.json", b"{\"acc\": 1}");
    make_fifo(&kim.project.join("samples_verbs_2026.jsonl"));
    let beside = ["record", "eval", "results.json", "samples_verbs_2026.jsonl", "--subject", "out"];
    assert!(refuses(&kim, &beside, 2, "bad-data").stderr.contains("not a regular file"));
    refuses(&kim, &["record", "eval", "gone.json", "--subject", "out"], 2, "bad-data");
    std::fs::create_dir(kim.project.join("none")).unwrap();
    is_refused(&kim, "none", "no results of a harness");
}
