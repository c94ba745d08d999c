//! The files that every rank of a distributed training writes: which ranks there are, and which are missing.
//!
//! torch DCP names all files in `.metadata`, which is written last; other libraries name files by the rank, and
//! a gap in the numbers, or a world that a pickle states, tells what is missing.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Layout, Parts};
use super::pickle::{Found, Value};
use super::problem::NAMED;
use super::{Problem, Scene};
use crate::model::content::{join, split};

/// What was found in the pickles of a checkpoint, by file.
pub(super) type ByFile = BTreeMap<Vec<u8>, Found>;

/// A name with a rank in it.
struct Ranked<'a> {
    before: &'a str,
    rank: u32,
    after: &'a str,
}

/// Splits `random_states_3.pkl` and the like at their rank.
fn ranked(name: &[u8]) -> Option<Ranked<'_>> {
    let name = std::str::from_utf8(name).ok()?;
    for (start, ends) in [
        ("random_states_", &[".pkl"][..]),
        ("rng_state_", &[".pth"]),
        ("zero_pp_rank_", &["_optim_states.pt", "_model_states.pt"]),
        ("mp_rank_", &["_model_states.pt"]),
        ("__", &[".distcp"]),
    ] {
        let Some(at) = name.find(start) else { continue };
        // `bf16_zero_pp_rank_0_..` has the precision before it; everything else begins with the word.
        if at > 0 && start != "zero_pp_rank_" {
            continue;
        }
        let (before, rest) = name.split_at(at + start.len());
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        if let Ok(rank) = number.parse()
            && digits <= 6
            && ends.iter().any(|end| after.ends_with(end))
        {
            return Some(Ranked { before, rank, after });
        }
    }
    None
}

/// The files that ranks have left, by rank; a set has one directory, and one name before and after the number.
type Sets<'a> = BTreeMap<(&'a [u8], &'a str, &'a str), BTreeMap<u32, &'a [u8]>>;

/// Compares the ranks that left files with those that must have, and returns all that did.
pub(super) fn check(
    scene: &Scene<'_>,
    parts: &Parts,
    found: &ByFile,
    problems: &mut Vec<Problem>,
) -> BTreeSet<u32> {
    let mut ranks = BTreeSet::new();
    let mut sets = Sets::new();
    for file in &scene.tree.files {
        let (dir, name) = split(&file.path);
        let Some(Ranked { before, rank, after }) = ranked(name) else { continue };
        // Tensor parallelism is another axis than the ranks that share one model.
        if before != "mp_rank_" {
            ranks.insert(rank);
        }
        // Names of DCP hold a second number, and its `.metadata` says more than names can.
        if before != "__" {
            sets.entry((dir, before, after)).or_default().insert(rank, &file.path);
        }
    }
    for ((dir, before, after), of) in &sets {
        let world = if before.ends_with("zero_pp_rank_") { world_size(found, dir) } else { None };
        let seen = of.keys().next_back().map_or(0, |last| last + 1);
        let expected = world.unwrap_or(0).max(seen);
        let absent = || (0..expected).filter(|rank| !of.contains_key(rank));
        let count = absent().count();
        if let Some(first) = of.values().next().filter(|_| count > 0) {
            let digits = if *before == "mp_rank_" { 2 } else { 1 };
            let named = absent().take(NAMED).map(|rank| format!("{before}{rank:0digits$}{after}")).collect();
            let is_weights = after.ends_with("_model_states.pt");
            problems.push(Problem::MissingRanks { path: first.to_vec(), count, named, is_weights });
        }
    }
    for (dir, _) in parts.dirs.iter().filter(|(_, layout)| **layout == Layout::DeepSpeed) {
        zero_without_ranks(dir, &sets, found, problems);
    }
    ranks
}

/// A model whose optimizer is shared out among ranks, none of which has left a file.
fn zero_without_ranks(dir: &[u8], sets: &Sets<'_>, found: &ByFile, problems: &mut Vec<Problem>) {
    let is_here = |before: &str| sets.keys().any(|(of, known, _)| *of == dir && known.ends_with(before));
    let Some(world) = world_size(found, dir).filter(|world| *world > 1) else { return };
    if is_here("mp_rank_") && !is_here("zero_pp_rank_") {
        let named = (0..world.min(NAMED as u32))
            .map(|rank| format!("zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"))
            .collect();
        let path = join(dir, b"mp_rank_00_model_states.pt");
        problems.push(Problem::MissingRanks { path, count: world as usize, named, is_weights: false });
    }
}

/// Reads how many ranks shared the model, from the pickles of a `DeepSpeed` directory.
fn world_size(found: &ByFile, dir: &[u8]) -> Option<u32> {
    const MOST: u64 = 1 << 20;
    let here = found.iter().filter(|(path, _)| split(path).0 == dir && path.ends_with(b"_model_states.pt"));
    let sizes = here.flat_map(|(_, found)| &found.groups).filter_map(|group| group.get("dp_world_size"));
    let size = sizes.filter_map(Value::count).max()?;
    u32::try_from(size.min(MOST)).ok()
}

/// Holds the files of torch DCP to its `.metadata`: all there, as long as it says, and no others.
pub(super) fn check_dcp(scene: &Scene<'_>, found: &ByFile, problems: &mut Vec<Problem>) {
    let mut dirs: BTreeSet<&[u8]> = BTreeSet::new();
    for file in &scene.tree.files {
        let (dir, name) = split(&file.path);
        if name == b".metadata" || name.ends_with(b".distcp") {
            dirs.insert(dir);
        }
    }
    for dir in dirs {
        let index = join(dir, b".metadata");
        let is_weights = super::role::by_name(&index).is_read();
        if scene.tree.file(&index).is_none() {
            problems.push(Problem::Unfinished { path: index, is_weights });
            continue;
        }
        let Some(found) = found.get(&index) else {
            let why = "it is no pickle".to_owned();
            problems.push(Problem::Malformed { path: index, format: "pickle", why, is_weights });
            continue;
        };
        let needed = match needed(found) {
            Ok(needed) => needed,
            Err(why) => {
                problems.push(Problem::BadIndex { path: index, why });
                continue;
            }
        };
        let absent = || needed.keys().filter(|name| scene.tree.file(&join(dir, name.as_bytes())).is_none());
        let count = absent().count();
        if count > 0 {
            let named = absent().take(NAMED).map(|name| (*name).to_owned()).collect();
            problems.push(Problem::MissingShards { path: index.clone(), count, named });
        }
        for (name, bytes) in &needed {
            if let Some(file) = scene.tree.file(&join(dir, name.as_bytes()))
                && file.size < *bytes
            {
                let why = format!("it is cut short: {bytes} bytes are promised, {} are there", file.size);
                let path = file.path.clone();
                problems.push(Problem::Malformed { path, format: "torch DCP", why, is_weights });
            }
        }
        if needed.is_empty() || found.is_partial {
            continue;
        }
        for file in scene.tree.files.iter().filter(|file| split(&file.path).0 == dir) {
            let name = split(&file.path).1;
            let is_named = std::str::from_utf8(name).is_ok_and(|name| needed.contains_key(name));
            if name.ends_with(b".distcp") && !is_named {
                problems.push(Problem::ExtraShard { path: file.path.clone(), index: index.clone() });
            }
        }
    }
}

/// Returns the files that a `.metadata` names, and how long each must be.
fn needed(found: &Found) -> Result<BTreeMap<&str, u64>, String> {
    let mut needed: BTreeMap<&str, u64> = BTreeMap::new();
    for group in &found.groups {
        let Some(Value::Text(name)) = group.get("relative_path") else { continue };
        let count = |key| group.get(key).and_then(Value::count).unwrap_or(0);
        let end = count("offset").saturating_add(count("length"));
        if !super::shards::is_inside(name) {
            return Err(format!(
                "`{}` leads out of the directory",
                crate::model::content::escape(name.as_bytes())
            ));
        }
        let known = needed.entry(name).or_default();
        *known = (*known).max(end);
    }
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_from_names() {
        for (name, rank) in [
            ("random_states_3.pkl", Some(3)),
            ("rng_state_12.pth", Some(12)),
            ("rng_state.pth", None),
            ("bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", Some(1)),
            ("zero_pp_rank_7_mp_rank_00_model_states.pt", Some(7)),
            ("mp_rank_01_model_states.pt", Some(1)),
            ("__4_0.distcp", Some(4)),
            ("x__4_0.distcp", None),
            ("random_states_.pkl", None),
            ("random_states_1234567890.pkl", None),
            ("model.safetensors", None),
        ] {
            assert_eq!(ranked(name.as_bytes()).map(|found| found.rank), rank, "{name}");
        }
    }
}
