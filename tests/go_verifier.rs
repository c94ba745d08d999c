//! Logs written by this crate, judged by a Go program that shares no code with it.
//!
//! Whole logs must be accepted and every named damage refused. The logs hold opaque entries; what statements
//! mean is not looked at here. The program is `tests/verifier/main.go`.

#![expect(clippy::disallowed_methods, reason = "tests lay files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where its ground gives way")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use ledger::codec::Writer;
use ledger::id::{StatementId, TreeHash, hex, statement_id};
use ledger::log::key::SigningKey;
use ledger::log::note::{SignedHead, TreeHead, sign_receipt, vkey};
use ledger::log::proof::{Proof, Subject};
use ledger::log::tile::{Level, MAX_ENTRY, Tile, encode_bundle, new_bundles};
use ledger::log::tree::{MemoryTiles, inclusion_proof, new_tiles, root_at};
use tempfile::TempDir;

const ORIGIN: &str = "lineage-ledger/test";

static VERIFIER: LazyLock<PathBuf> = LazyLock::new(|| {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = scratch.join("verifier");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verifier/main.go"))
        .env("GO111MODULE", "off")
        .env("GOPATH", "/usr/share/gocode")
        .env("GOFLAGS", "")
        .env("GOCACHE", scratch.join("go-cache"))
        .output();
    let hint = "install Go and its checksum client: apt-get install golang-go golang-golang-x-mod-dev";
    match built {
        Ok(output) if output.status.success() => program,
        Ok(output) => panic!("the Go verifier does not build; {hint}\n{}", said(&output)),
        Err(error) => panic!("no Go tool ({error}); {hint}"),
    }
});

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn key() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

fn other_key() -> SigningKey {
    SigningKey::from_seed(&[2; 32])
}

fn entry(index: usize) -> Vec<u8> {
    match index {
        // Both ends of what a bundle can say.
        1 => Vec::new(),
        3 => vec![7; MAX_ENTRY],
        _ => format!("entry {index}").repeat(1 + index % 3).into_bytes(),
    }
}

/// A log in a directory, with what is needed to damage it in telling ways.
struct Log {
    dir: TempDir,
    entries: Vec<Vec<u8>>,
    tiles: MemoryTiles,
}

impl Log {
    /// Writes a log of `size` entries in batches that end at each of `stops` and at `size`.
    fn write(entries: Vec<Vec<u8>>, stops: &[usize]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Self { dir, entries, tiles: MemoryTiles::new() };
        let size = log.entries.len();
        log.publish(0);
        for stop in stops.iter().copied().filter(|stop| *stop < size).chain([size]) {
            log.append(stop);
            log.publish(stop);
        }
        log
    }

    fn of(size: usize) -> Self {
        Self::write((0..size).map(entry).collect(), &[1, 2, 200, 255, 256, 300, 999])
    }

    fn append(&mut self, to: usize) {
        let old = self.tiles.size();
        let slices: Vec<&[u8]> = self.entries[old as usize..to].iter().map(Vec::as_slice).collect();
        let leaves: Vec<StatementId> = slices.iter().map(|entry| statement_id(entry)).collect();
        let held = Tile::at_size(Level::Entries, old / 256, old).map(|tile| self.read(&tile.path()));
        let bundles = new_bundles(old, &held.unwrap_or_default(), &slices).unwrap();
        for (tile, bytes) in bundles.into_iter().chain(new_tiles(old, &leaves, &self.tiles).unwrap()) {
            self.lay(&tile.path(), &bytes);
        }
        self.tiles.extend(leaves);
    }

    fn root(&self, size: usize) -> TreeHash {
        root_at(&self.tiles, size as u64).unwrap()
    }

    fn head(&self, size: usize) -> TreeHead {
        TreeHead { origin: ORIGIN.into(), size: size as u64, root: self.root(size) }
    }

    fn signed(&self, size: usize) -> String {
        SignedHead::sign(self.head(size), &key()).unwrap().as_str().to_owned()
    }

    fn publish(&self, size: usize) {
        self.lay("checkpoint", self.signed(size).as_bytes());
    }

    fn proof(&self, index: usize, size: usize) -> String {
        let hashes = inclusion_proof(&self.tiles, index as u64, size as u64).unwrap();
        let proof = Proof { subject: Subject::Leaf { index: index as u64 }, path: hashes };
        proof.to_text(&SignedHead::parse(&self.signed(size)).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn lay(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn run(&self, vkeys: &str, args: &[&str]) -> Output {
        let mut command = Command::new(&*VERIFIER);
        command.current_dir(self.dir.path()).args([".", vkeys]).args(args).output().unwrap()
    }

    fn expect_accepted(&self, size: usize, what: &str, args: &[&str]) {
        let output = self.run(&vkey(ORIGIN, &key().public()), args);
        let tiles = Tile::all(size as u64).filter(|tile| tile.level() != Level::Entries).count();
        let root = ledger::log::key::base64(self.root(size).as_bytes());
        let expected = format!("ok size={size} root={root} entries={size} tiles={tiles}\n");
        assert_eq!((said(&output), output.status.code()), (expected, Some(0)), "{what}");
    }
}

/// One way to spoil a log: files to lay or (without bytes) to remove, the arguments, and what is to be said.
struct Damage {
    name: &'static str,
    files: Vec<(String, Option<Vec<u8>>)>,
    args: Vec<String>,
    says: &'static str,
}

impl Damage {
    fn new(name: &'static str, says: &'static str) -> Self {
        Self { name, files: Vec::new(), args: Vec::new(), says }
    }

    fn lay(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), Some(bytes.into())));
        self
    }

    fn remove(mut self, name: &str) -> Self {
        self.files.push((name.to_owned(), None));
        self
    }

    fn args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self
    }
}

fn flipped(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 1;
    bytes
}

/// Damages the log, expects the refusal, and mends the log.
fn expect_refused(log: &Log, damage: &Damage) {
    let before: Vec<_> = damage.files.iter().map(|(name, _)| fs::read(log.path(name)).ok()).collect();
    for (name, bytes) in &damage.files {
        assert_ne!(fs::read(log.path(name)).ok(), *bytes, "{}: {name} must change", damage.name);
        match bytes {
            Some(bytes) => log.lay(name, bytes),
            None => fs::remove_file(log.path(name)).unwrap(),
        }
    }
    let output =
        log.run(&vkey(ORIGIN, &key().public()), &damage.args.iter().map(String::as_str).collect::<Vec<_>>());
    for ((name, _), bytes) in damage.files.iter().zip(before) {
        match bytes {
            Some(bytes) => log.lay(name, &bytes),
            None => fs::remove_file(log.path(name)).unwrap(),
        }
    }
    assert_eq!(output.status.code(), Some(1), "{}: {}", damage.name, said(&output));
    assert!(output.stdout.is_empty(), "{}", damage.name);
    assert!(said(&output).contains(damage.says), "{}: {}", damage.name, said(&output));
}

#[test]
fn whole_logs_are_accepted() {
    for size in [0, 1, 255, 256, 257, 1000] {
        let log = Log::of(size);
        assert_eq!(log.path("tile").exists(), size > 0);
        log.expect_accepted(size, "whole", &[]);
        for old in [0, 1, 200, 256, size].into_iter().filter(|old| *old <= size) {
            log.lay("old", log.signed(old).as_bytes());
            log.expect_accepted(size, "continues an earlier head", &["-old", "old"]);
        }
        for index in [0, 1, 3, 255, 256, size.saturating_sub(1)].into_iter().filter(|index| *index < size) {
            log.lay("proof", log.proof(index, size).as_bytes());
            log.lay("entry", &log.entries[index]);
            log.expect_accepted(size, "has the entry", &["-proof", "proof", "-entry", "entry"]);
        }
    }
}

#[test]
fn what_the_format_allows_is_accepted() {
    let log = Log::of(1000);
    let note = log.signed(1000);
    let grease = "\u{2014} grease.invalid AAAAAAAA\n\u{2014} lineage-ledger/test AAAAAAAA\n";
    log.lay("checkpoint", format!("{note}{grease}").as_bytes());
    log.expect_accepted(1000, "lines of unknown keys", &[]);

    log.lay("checkpoint", log.signed(999).as_bytes());
    log.expect_accepted(999, "a writer was stopped between tiles and tree head", &[]);
    for name in ["tile/0/000.p/1", "tile/0/001.p/44", "tile/entries/000.p/1"] {
        fs::remove_file(log.path(name)).unwrap();
    }
    log.lay("checkpoint", log.signed(300).as_bytes());
    log.expect_accepted(300, "the full tile stands for the partial one", &[]);

    let keys = format!("{}\n{}\n", vkey(ORIGIN, &other_key().public()), vkey(ORIGIN, &key().public()));
    log.lay("keys", keys.as_bytes());
    let output = log.run("keys", &[]);
    assert!(output.status.success(), "either key of the log will do: {}", said(&output));
}

#[test]
fn wrong_usage_is_told_apart_from_a_bad_log() {
    let log = Log::of(1);
    let keys = vkey(ORIGIN, &key().public());
    for args in [&["-proof", "p"][..], &["-unknown"], &["surplus"], &["-receipt", "r", "-key", "k"]] {
        assert_eq!(log.run(&keys, args).status.code(), Some(2), "{args:?}");
    }
    for keys in ["", "no-such-file", &keys[1..], &vkey("lineage-ledger/other", &key().public())] {
        assert_eq!(log.run(keys, &[]).status.code(), Some(1), "{keys:?}");
    }
}

#[test]
fn every_damage_of_a_small_log_is_refused() {
    let log = Log::of(1000);
    let (bundle, tile, top) = ("tile/entries/001", "tile/0/001", "tile/1/000.p/3");
    let (last, last_tile) = ("tile/entries/003.p/232", "tile/0/003.p/232");
    let note = log.signed(1000);
    let sign = |head: TreeHead, key: &SigningKey| SignedHead::sign(head, key).unwrap().as_str().to_owned();
    let signature_at = note.rfind(' ').unwrap() + 20;
    let other_digit = if note.as_bytes()[signature_at] == b'A' { b'B' } else { b'A' };
    let mut edited = note.clone().into_bytes();
    edited[signature_at] = other_digit;

    let mut swapped: Vec<&[u8]> = log.entries[256..512].iter().map(Vec::as_slice).collect();
    swapped.swap(10, 11);
    let swapped = encode_bundle(&swapped).unwrap();

    let mut forked = log.entries.clone();
    forked[100] = b"another past".to_vec();
    let fork = Log::write(forked, &[]);

    let proof = log.proof(500, 1000);
    let entry = log.entries[500].clone();
    let prove = ["-proof", "proof", "-entry", "entry"];
    let hash_line = proof.lines().nth(2).unwrap();

    let damages = [
        Damage::new("flipped byte of an entry", "not what the entries give")
            .lay(bundle, flipped(log.read(bundle), 9)),
        Damage::new("flipped byte of the last entry", "not what the entries give")
            .lay(last, flipped(log.read(last), log.read(last).len() - 1)),
        Damage::new("flipped length of an entry", "tile/entries/001")
            .lay(bundle, flipped(log.read(bundle), 1)),
        Damage::new("swapped entries", "tile/0/001: item 10").lay(bundle, swapped),
        Damage::new("truncated bundle", "cut short")
            .lay(bundle, &log.read(bundle)[..log.read(bundle).len() - 1]),
        Damage::new("extra bytes in a bundle", "1 bytes too many")
            .lay(last, [log.read(last), vec![0]].concat()),
        Damage::new("empty bundle", "cut short").lay(bundle, ""),
        Damage::new("missing bundle", "no such file").remove(bundle),
        Damage::new("swapped bundles", "not what the entries give")
            .lay("tile/entries/001", log.read("tile/entries/002"))
            .lay("tile/entries/002", log.read("tile/entries/001")),
        Damage::new("missing tile", "no such file").remove(tile),
        Damage::new("missing last tile", "no such file").remove(last_tile),
        Damage::new("missing top tile", "no such file").remove(top),
        Damage::new("truncated tile", "cut short").lay(tile, &log.read(tile)[..8191]),
        Damage::new("extra bytes in a tile", "32 bytes too many")
            .lay(tile, [log.read(tile), vec![0; 32]].concat()),
        Damage::new("longer partial tile", "32 bytes too many")
            .lay(last_tile, [log.read(last_tile), log.read(last_tile)[..32].to_vec()].concat()),
        Damage::new("full tile under the name of a partial one", "bytes too many")
            .lay("tile/0/000.p/255", log.read("tile/0/000")),
        Damage::new("damaged leftover of an earlier size", "tile/0/000.p/200")
            .lay("tile/0/000.p/200", flipped(log.read("tile/0/000.p/200"), 40)),
        Damage::new("damaged leftover bundle", "tile/entries/000.p/200")
            .lay("tile/entries/000.p/200", flipped(log.read("tile/entries/000.p/200"), 2)),
        Damage::new("swapped tiles", "not what the entries give")
            .lay("tile/0/001", log.read("tile/0/002"))
            .lay("tile/0/002", log.read("tile/0/001")),
        Damage::new("tile of level 0 at level 1", "not what the entries give")
            .lay(top, &log.read(tile)[..96]),
        Damage::new("a name that no tile has", "not the name of a tile").lay("tile/0/1", vec![0; 8192]),
        Damage::new("a width that no tile has", "not the name of a tile")
            .lay("tile/0/001.p/256", vec![0; 8192]),
        Damage::new("missing tree head", "no such file").remove("checkpoint"),
        Damage::new("empty tree head", "malformed note").lay("checkpoint", ""),
        Damage::new("edited size line", "invalid signature")
            .lay("checkpoint", note.replace("\n1000\n", "\n999\n")),
        Damage::new("edited root line", "invalid signature").lay(
            "checkpoint",
            note.replace(note.lines().nth(2).unwrap(), fork.signed(1000).lines().nth(2).unwrap()),
        ),
        Damage::new("edited signature", "invalid signature").lay("checkpoint", edited),
        Damage::new("no signature", "malformed note").lay("checkpoint", log.head(1000).text()),
        Damage::new("bad line of the key beside a good one", "invalid signature").lay(
            "checkpoint",
            format!("{}{}", note.replace("\n1000\n", "\n999\n"), note.lines().last().unwrap()) + "\n",
        ),
        Damage::new("signed leading zero", "one form")
            .lay("checkpoint", signed_text(&log.head(1000).text().replace("\n1000\n", "\n01000\n"))),
        Damage::new("signed extension line", "three lines")
            .lay("checkpoint", signed_text(&format!("{}extension\n", log.head(1000).text()))),
        Damage::new("signed wrong size", "no such file")
            .lay("checkpoint", sign(TreeHead { size: 1001, ..log.head(1000) }, &key())),
        Damage::new("signed smaller size", "the entries have root")
            .lay("checkpoint", sign(TreeHead { size: 999, ..log.head(1000) }, &key())),
        Damage::new("signed wrong root", "the entries have root")
            .lay("checkpoint", sign(TreeHead { root: log.root(999), ..log.head(1000) }, &key())),
        Damage::new("wrong key", "no verifiable signatures")
            .lay("checkpoint", sign(log.head(1000), &other_key())),
        Damage::new("wrong origin", "no verifiable signatures").lay(
            "checkpoint",
            sign(TreeHead { origin: "lineage-ledger/other".into(), ..log.head(1000) }, &key()),
        ),
        Damage::new("head of a fork over these tiles", "the entries have root")
            .lay("checkpoint", fork.signed(1000)),
        Damage::new("replayed older head of the same key", "rolled back")
            .lay("checkpoint", log.signed(300))
            .lay("old", note.clone())
            .args(&["-old", "old"]),
        Damage::new("fork of an earlier head", "a fork").lay("old", fork.signed(900)).args(&["-old", "old"]),
        Damage::new("fork at the same size", "a fork").lay("old", fork.signed(1000)).args(&["-old", "old"]),
        Damage::new("earlier head of another key", "no verifiable signatures")
            .lay("old", sign(log.head(900), &other_key()))
            .args(&["-old", "old"]),
        Damage::new("proof with another index", "invalid transparency proof")
            .lay("proof", proof.replace("index 500", "index 501"))
            .lay("entry", entry.clone())
            .args(&prove),
        Damage::new("proof with an index beyond the size", "not below size")
            .lay("proof", proof.replace("index 500", "index 1000"))
            .lay("entry", entry.clone())
            .args(&prove),
        Damage::new("proof with a leading zero", "bad index line")
            .lay("proof", proof.replace("index 500", "index 0500"))
            .lay("entry", entry.clone())
            .args(&prove),
        Damage::new("proof with another entry", "invalid transparency proof")
            .lay("proof", proof.clone())
            .lay("entry", log.entries[501].clone())
            .args(&prove),
        Damage::new("proof without one hash", "invalid transparency proof")
            .lay("proof", proof.replace(&format!("{hash_line}\n"), ""))
            .lay("entry", entry.clone())
            .args(&prove),
        Damage::new("proof with one hash twice", "invalid transparency proof")
            .lay("proof", proof.replace(hash_line, &format!("{hash_line}\n{hash_line}")))
            .lay("entry", entry.clone())
            .args(&prove),
        Damage::new("proof to a fork", "invalid transparency proof")
            .lay("proof", proof.replace(&note, &fork.signed(1000)))
            .lay("entry", entry)
            .args(&prove),
    ];
    for damage in &damages {
        expect_refused(&log, damage);
    }
    log.expect_accepted(1000, "mended after every damage", &[]);
}

/// Signs any text as a note of the log, which the crate itself never would.
fn signed_text(text: &str) -> String {
    let id = ledger::log::note::key_id(ORIGIN, &key().public()).to_be_bytes();
    let blob = [id.as_slice(), &key().sign(text.as_bytes())].concat();
    format!("{text}\n\u{2014} {ORIGIN} {}\n", ledger::log::key::base64(&blob))
}

#[test]
fn a_flipped_bit_is_found_at_every_level_of_a_large_log() {
    let log = Log::of(65_536);
    log.expect_accepted(65_536, "whole", &["-old", "checkpoint"]);
    log.lay("proof", log.proof(54_321, 65_536).as_bytes());
    log.lay("entry", &log.entries[54_321]);
    log.expect_accepted(65_536, "has the entry", &["-proof", "proof", "-entry", "entry"]);
    for (name, says) in [
        ("tile/entries/255", "tile/0/255"),
        ("tile/0/000", "tile/0/000"),
        ("tile/0/255", "tile/0/255"),
        ("tile/1/000", "tile/1/000"),
        ("tile/2/000.p/1", "tile/2/000.p/1"),
    ] {
        let bytes = log.read(name);
        let last = bytes.len() - 1;
        expect_refused(&log, &Damage::new("flipped bit", says).lay(name, flipped(bytes, last)));
        expect_refused(&log, &Damage::new("missing file", "no such file").remove(name));
    }
    log.expect_accepted(65_536, "mended", &[]);
}

#[test]
fn receipts_are_held_to_the_root_and_the_key() {
    // The beginning of a tagged message with one signature is all that is looked at in an entry.
    let statements: Vec<_> =
        (0..5).map(|index| [&[0xd2, 0x84, index], b" statement".as_slice()].concat()).collect();
    let log = Log::write(statements.clone(), &[2]);
    let public = hex(key().public().as_bytes());
    let head_file = |extends: u64, statements: &[Vec<u8>], note: &str, receipt: &[u8]| {
        let mut map = Writer::new();
        map.map(5).text("v").uint(1).text("note").text(note).text("extends").uint(extends);
        map.text("receipt").byte_string(receipt).text("statements").array(statements.len());
        for statement in statements {
            map.byte_string(statement);
        }
        map.finish()
    };
    let receipt = sign_receipt(log.root(5), &key());
    let good = head_file(2, &statements[2..], &log.signed(5), &receipt);
    log.lay("receipt", &receipt);
    log.lay("head", &good);
    let earlier = head_file(0, &statements[..2], &log.signed(2), &sign_receipt(log.root(2), &key()));
    log.lay("earlier", &earlier);
    let args =
        ["-statements", "-receipt", "receipt", "-receipt", "head", "-receipt", "earlier", "-key", &public];
    log.expect_accepted(5, "receipt and head files", &args);

    let other = sign_receipt(log.root(5), &other_key());
    let stale = sign_receipt(log.root(2), &key());
    let mut others = statements[2..].to_vec();
    others.swap(0, 1);
    let flipped_tag = flipped(receipt.clone(), 0);
    for (name, says, bytes) in [
        ("receipt of another key", "by this key", other.clone()),
        ("receipt of another root", "does not hold", stale.clone()),
        ("changed receipt signature", "does not hold", flipped(receipt.clone(), receipt.len() - 1)),
        ("changed receipt form", "by this key", flipped_tag),
        ("longer receipt", "by this key", [receipt.clone(), vec![0]].concat()),
        (
            "head file with a receipt of another key",
            "by this key",
            head_file(2, &statements[2..], &log.signed(5), &other),
        ),
        (
            "head file with a stale receipt",
            "does not hold",
            head_file(2, &statements[2..], &log.signed(5), &stale),
        ),
        (
            "head file with a statement too few",
            "do not lead",
            head_file(2, &statements[3..], &log.signed(5), &receipt),
        ),
        (
            "head file with other statements",
            "another statement",
            head_file(2, &others, &log.signed(5), &receipt),
        ),
        ("head file cut short", "cut short", good[..good.len() - 1].to_vec()),
        ("head file with bytes behind it", "after the map", [good.clone(), vec![0]].concat()),
    ] {
        let damage = Damage::new(name, says).lay("bad", bytes);
        expect_refused(&log, &damage.args(&["-statements", "-receipt", "bad", "-key", &public]));
    }
    let plain = Log::of(5);
    expect_refused(
        &plain,
        &Damage::new("entries that are no statements", "COSE_Sign1").args(&["-statements"]),
    );
}
