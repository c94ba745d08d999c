//! The pages of `store-format` held to the code: the table of kinds, the fields in CDDL, and every example.
//!
//! A fenced block `hex of=FILE` is the annotated bytes of a golden file, `text of=FILE` its text; a golden record
//! is named `record/KIND`. When golden bytes are written anew, so are these blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use ledger::codec::{self, Value};
use ledger::id::hex;
use ledger::model::{COMMON_LINKS, Count, Kind, LinkRule, StatedBy};

use super::{files, format_dir, overwrite, records};

const PAGES: &[&str] = &[
    "README.md",
    "ids.md",
    "encoding.md",
    "records.md",
    "statements.md",
    "log.md",
    "directories.md",
    "trust.md",
    "state.md",
    "packs.md",
];

fn page(name: &str) -> String {
    fs::read_to_string(format_dir().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Bytes of an Ed25519 signature.
const SIGNATURE: usize = 64;

/// Writes CBOR as indented hex, an item a line, with what each item is behind `#`.
struct Annotated<'a> {
    bytes: &'a [u8],
    at: usize,
    text: String,
}

impl<'a> Annotated<'a> {
    fn of(bytes: &'a [u8]) -> String {
        let mut all = Self { bytes, at: 0, text: String::new() };
        all.item(0, false);
        assert_eq!(all.at, bytes.len(), "one item");
        all.text
    }

    fn line(&mut self, depth: usize, digits: &str, comment: &str) {
        let line = format!("{}{digits}", "  ".repeat(depth));
        if comment.is_empty() {
            writeln!(self.text, "{line}").unwrap();
        } else {
            writeln!(self.text, "{line:<44} # {comment}").unwrap();
        }
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        self.at += len;
        &self.bytes[self.at - len..self.at]
    }

    fn run(&mut self, depth: usize, bytes: &[u8]) {
        for part in bytes.chunks(32) {
            self.line(depth, &hex(part), "");
        }
    }

    /// Writes one item; below a tag, byte strings may hold items themselves, and signatures never do.
    fn item(&mut self, depth: usize, is_tagged: bool) {
        let first = self.bytes[self.at];
        let (major, info) = (first >> 5, first & 31);
        let width = if info < 24 { 0 } else { 1 << (info - 24) };
        let head = self.take(1 + width);
        let value = if width == 0 {
            u64::from(info)
        } else {
            head[1..].iter().fold(0, |v, b| (v << 8) | u64::from(*b))
        };
        let (digits, len) = (hex(head), value as usize);
        match major {
            0 => self.line(depth, &digits, &value.to_string()),
            1 => self.line(depth, &digits, &format!("-{}", value + 1)),
            2 => {
                let body = self.take(len);
                let is_item = |byte: &u8| matches!(byte >> 5, 4 | 5);
                let holds = is_tagged && len != SIGNATURE && body.first().is_some_and(is_item);
                self.line(
                    depth,
                    &digits,
                    &format!("bytes({len}){}", if holds { ", which hold" } else { "" }),
                );
                if holds {
                    let mut inner = Annotated { bytes: body, at: 0, text: String::new() };
                    inner.item(depth + 1, false);
                    self.text.push_str(&inner.text);
                } else {
                    self.run(depth + 1, body);
                }
            }
            3 => {
                let body = self.take(len);
                let text = std::str::from_utf8(body).unwrap();
                if len <= 12 {
                    self.line(depth, &format!("{digits} {}", hex(body)), &format!("{text:?}"));
                } else {
                    let shown = if len > 48 { format!("{:?}..", &text[..40]) } else { format!("{text:?}") };
                    self.line(depth, &digits, &shown);
                    self.run(depth + 1, body);
                }
            }
            4 => {
                self.line(depth, &digits, &format!("array({len})"));
                for _ in 0..len {
                    self.item(depth + 1, is_tagged);
                }
            }
            5 => {
                self.line(depth, &digits, &format!("map({len})"));
                for _ in 0..len {
                    self.item(depth + 1, false);
                    self.item(depth + 2, is_tagged);
                }
            }
            6 => {
                self.line(depth, &digits, &format!("tag({value})"));
                self.item(depth, true);
            }
            _ => self.line(depth, &digits, "null"),
        }
    }
}

/// Returns a page with the content of each example replaced by what it is an example of.
fn with_examples(text: &str) -> (String, usize) {
    let mut golden = files().clone();
    for (kind, name, bytes) in records::golden().into_iter().filter(|(_, name, _)| *name == "whole") {
        assert_eq!(name, "whole");
        golden.insert(format!("record/{kind}"), bytes);
    }
    let (mut out, mut count, mut in_example) = (String::new(), 0, false);
    for line in text.lines() {
        if in_example && line != "```" {
            continue;
        }
        in_example = false;
        writeln!(out, "{line}").unwrap();
        let Some((form, of)) = line.strip_prefix("```").and_then(|info| info.split_once(" of=")) else {
            continue;
        };
        let bytes = golden.get(of).unwrap_or_else(|| panic!("there is no golden file `{of}`"));
        match form {
            "hex" => out.push_str(&Annotated::of(bytes)),
            _ => out.push_str(std::str::from_utf8(bytes).unwrap()),
        }
        (in_example, count) = (true, count + 1);
    }
    (out, count)
}

#[test]
fn every_example_is_golden_bytes() {
    let mut count = 0;
    for name in PAGES {
        let text = page(name);
        let (fresh, found) = with_examples(&text);
        count += found;
        if overwrite() {
            fs::write(format_dir().join(name), &fresh).unwrap();
        } else {
            assert!(fresh == text, "{name}: an example is not the golden bytes");
        }
    }
    assert!(count >= 8, "the pages have examples");
}

/// Returns every run of 64 hex digits in a text.
fn digests(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !matches!(c, '0'..='9' | 'a'..='f')).filter(|run| run.len() == 64)
}

#[test]
fn every_digest_on_a_page_is_one_of_the_vectors() {
    let mut known = String::new();
    for (name, bytes) in files() {
        writeln!(known, "{} {}", name.replace('/', ""), hex(bytes)).unwrap();
        known.push_str(std::str::from_utf8(bytes).unwrap_or_default());
    }
    let mut count = 0;
    for name in PAGES {
        for digest in digests(&page(name)) {
            assert!(known.contains(digest), "{name}: {digest} is in no vector");
            count += 1;
        }
    }
    assert!(count > 20, "the pages have digests");
}

#[test]
fn the_pages_are_those_of_the_index() {
    let mut found: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(format_dir()).unwrap() {
        found.insert(entry.unwrap().file_name().into_string().unwrap());
    }
    assert!(found.remove("vectors") && found.remove("reader"));
    let expected: BTreeSet<String> = PAGES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, expected);
    let index = page("README.md");
    for name in PAGES {
        assert!(*name == "README.md" || index.contains(&format!("]({name})")), "{name} is not in the index");
        let mut is_fenced = false;
        for line in page(name).lines() {
            is_fenced ^= line.starts_with("```");
            let is_prose = !is_fenced && !line.starts_with('|');
            assert!(!is_prose || line.chars().count() <= 110, "{name}: a long line: {line}");
        }
    }
}

fn stated_by(rule: StatedBy) -> String {
    match rule {
        StatedBy::Nobody => "never".to_owned(),
        StatedBy::Roles(roles) => roles.iter().map(|role| role.word()).collect::<Vec<_>>().join(", "),
        StatedBy::FirstStatement => "first statement".to_owned(),
        StatedBy::KeyRules => "key rules".to_owned(),
        StatedBy::RunOrOwner => "run or owner".to_owned(),
        StatedBy::AuthorOfRun => "author of run".to_owned(),
        StatedBy::RevocationRules => "revocation rules".to_owned(),
    }
}

/// Returns every kind that can be claimed: what `any!` stands for.
fn claimable() -> BTreeSet<Kind> {
    Kind::ALL.into_iter().filter(|kind| kind.stated_by() != StatedBy::Nobody).collect()
}

fn link(rule: &LinkRule) -> String {
    let count = match rule.count {
        Count::One => "",
        Count::Optional => "?",
        Count::Many => "*",
        Count::Some => "+",
    };
    let kinds: BTreeSet<Kind> = rule.kinds.iter().copied().collect();
    let target = if rule.kinds.is_empty() {
        "any".to_owned()
    } else if kinds == claimable() {
        assert_eq!(rule.kinds.len(), rule.claimed.len(), "each of them must be claimed");
        "any!".to_owned()
    } else {
        let word = |kind: &Kind| format!("{kind}{}", if rule.claimed.contains(kind) { "!" } else { "" });
        rule.kinds.iter().map(word).collect::<Vec<_>>().join(" or ")
    };
    format!("{}{count} -> {target}{}", rule.role, if rule.claim_only { " (beside)" } else { "" })
}

fn links(rules: &[LinkRule]) -> String {
    let all = rules.iter().map(link).collect::<Vec<_>>().join("; ");
    if all.is_empty() { "-".to_owned() } else { all }
}

/// Returns the rows of the table whose header begins with these cells.
fn rows(page: &str, header: &[&str]) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    let mut lines = page.lines().skip_while(|line| {
        !(line.starts_with('|')
            && cells(line).starts_with(&header.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>()))
    });
    lines.next().unwrap_or_else(|| panic!("there is no table {header:?}"));
    lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

#[test]
fn the_table_of_kinds_is_that_of_the_code() {
    let table = rows(&page("records.md"), &["kind", "prefix", "stated by", "links", "facts", "prev"]);
    let found: Vec<&str> = table.iter().map(|row| row[0].as_str()).collect();
    let expected: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
    assert_eq!(found, expected, "one row a kind, in this order");
    for (kind, row) in Kind::ALL.into_iter().zip(&table) {
        let expected = [
            kind.word().to_owned(),
            kind.prefix().to_owned(),
            stated_by(kind.stated_by()),
            links(kind.links()),
        ];
        assert_eq!(row[..4], expected, "{kind}");
        assert_eq!(row[5], if kind.takes_prev() { "yes" } else { "-" }, "{kind}");
        assert_eq!(row.len(), 7, "{kind}: what it moves stands last");
        assert_eq!(row[4] == "-", facts_of(kind).is_empty(), "{kind}: its facts");
        for fact in facts_of(kind) {
            assert!(
                row[4].split(", ").any(|cell| cell.trim_end_matches('?') == fact),
                "{kind}: fact `{fact}`"
            );
        }
    }
    assert!(page("records.md").contains(&format!("`{}`", links(COMMON_LINKS))), "the links of every claim");
}

/// Returns the keys that the golden facts of a kind have.
fn facts_of(kind: Kind) -> BTreeSet<String> {
    let named = [Kind::Plan, Kind::Dataset, Kind::Model, Kind::Checkpoint].contains(&kind);
    let of_kind = records::facts().into_iter().filter(|(of, _)| *of == kind);
    let maps = of_kind.map(|(_, facts)| codec::decode::<BTreeMap<String, Value>>(&facts.encode()).unwrap());
    maps.flat_map(BTreeMap::into_keys).chain(named.then(|| "name".to_owned())).collect()
}

/// Returns the fields of one rule of the CDDL on a page: `name = {` to `}`, a field a line.
fn cddl_fields(page: &str, rule: &str) -> BTreeSet<String> {
    let mut lines = page.lines().skip_while(|line| *line != format!("{rule} = {{"));
    lines.next().unwrap_or_else(|| panic!("there is no rule `{rule}`"));
    let fields = lines.take_while(|line| *line != "}").filter_map(|line| line.split_once(':'));
    fields.map(|(name, _)| name.trim().trim_start_matches("? ").trim_matches('"').to_owned()).collect()
}

#[test]
fn the_fields_in_cddl_are_those_of_the_golden_records() {
    let page = page("records.md");
    let mut rules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (kind, name, bytes) in records::golden() {
        let fields: BTreeMap<String, Value> = codec::decode(&bytes).unwrap();
        let rule = if name == "split" { "tree-split-record".to_owned() } else { format!("{kind}-record") };
        let found = rules.entry(rule).or_default();
        found.extend(fields.into_keys());
        if ![Kind::Tree, Kind::Sums, Kind::Tensors].contains(&kind) {
            found.insert("ext".to_owned());
        }
    }
    for (rule, fields) in rules {
        assert_eq!(cddl_fields(&page, &rule), fields, "{rule}");
    }
}
