//! What lies at a path beyond what is recorded: new files that a loader reads, and code that would run.
//!
//! Names and first bytes decide, nothing is ever loaded. Where equal tensors are enough, the files that hold them
//! may be others; what lies beside them may not bring code along.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use crate::capture::walk::{self, Root};
use crate::capture::weights::{Problem, Weights};
use crate::model::content::{escape, split};
use crate::model::{Kind, TypedId};

use super::bytes::{Listing, Recorded, Sight, files, some};
use super::{Error, Extra, Finding, Severity};

/// Suffixes of what Python imports, or a loader opens as a library.
const CODE: [&str; 7] = [".py", ".pyc", ".pyo", ".pyd", ".so", ".dll", ".dylib"];
/// Suffixes of what is unpickled, beside those that weights have.
const PICKLES: [&str; 5] = [".pkl", ".pickle", ".dill", ".joblib", ".cloudpickle"];
/// Beginnings of names that Accelerate gives to pickles of a training's state, which no loader of the model reads.
const STATE: [&str; 2] = ["random_states", "custom_checkpoint"];
/// Configurations are read up to this size.
const MAX_CONFIG: u64 = 16 << 20;

/// Returns whether a name is one of code.
fn is_code(path: &[u8]) -> bool {
    CODE.iter().any(|end| path.ends_with(end.as_bytes()))
}

/// Returns whether a file is only a container of tensors: with the same tensors inside it may be another one.
fn is_container(path: &[u8]) -> bool {
    path.ends_with(b".safetensors") || path.ends_with(b".safetensors.index.json")
}

/// Returns whether a file is a shard that the index beside it does not name.
fn is_unnamed(weights: &Weights, path: &[u8]) -> bool {
    let is_it = |one: &Problem| matches!(one, Problem::ExtraShard { path: shard, .. } if shard == path);
    weights.problems.iter().any(is_it)
}

impl Sight<'_> {
    /// Reports files and links that the record does not know.
    pub(super) fn compare_extra(
        &mut self,
        recorded: &Recorded,
        weights: &Listing,
        full: Option<&Listing>,
        same_tensors: bool,
    ) -> Result<(), Error> {
        if self.tree.root != Root::Dir || self.tree.id == recorded.full.id {
            return Ok(());
        }
        let is_known =
            |path: &Vec<u8>| weights.contains_key(path) || full.is_some_and(|f| f.contains_key(path));
        let mut extra: Vec<Vec<u8>> =
            self.tree.files.iter().map(|file| &file.path).filter(|path| !is_known(path)).cloned().collect();
        let links = self.extra_links(recorded);
        if same_tensors && !extra.is_empty() {
            let holding = self.holding()?;
            extra.retain(|path| !holding.contains(path));
        }
        if (extra.is_empty() && links.is_empty()) || self.request.extra == Extra::Allow {
            return Ok(());
        }
        let read: BTreeSet<Vec<u8>> = self.weights()?.weights.clone();
        // A dataset has no loader: any file more is a difference.
        let whole = recorded.id.kind == Kind::Dataset;
        for path in extra {
            let why = match () {
                () if is_code(&path) => Some("it is code, and it is not part of what was recorded"),
                () if self.is_unnamed_shard(&path)? => {
                    Some("it is a shard that no index names, and some loaders read every shard")
                }
                () if whole || read.contains(&path) => {
                    Some("a loader reads it, and it is not part of what was recorded")
                }
                () if self.is_pickle(&path)? => {
                    Some("it is a pickle that was not recorded, and may run code")
                }
                () => None,
            };
            self.say_extra(recorded.id, &path, why);
        }
        for (path, target) in links {
            let leads_away = self
                .weights()?
                .problems
                .iter()
                .any(|problem| matches!(problem, Problem::Link { path: link, .. } if *link == path));
            let text = format!("a symbolic link to `{}` that was not recorded", escape(&target));
            let why = (whole || is_code(&path) || leads_away).then_some(text.as_str());
            self.say_extra(recorded.id, &path, why);
        }
        Ok(())
    }

    fn say_extra(&mut self, id: TypedId, path: &[u8], why: Option<&str>) {
        let is_denied = why.is_some() && self.request.extra == Extra::Deny;
        let severity = if is_denied { Severity::Fail } else { Severity::Warn };
        self.report
            .add(Finding::new(severity, "extra-file", why.unwrap_or("not recorded")).at(escape(path)).on(id));
    }

    /// Returns the links that are not in the record; none where its tree cannot be read, which is said elsewhere.
    pub(super) fn extra_links(&self, recorded: &Recorded) -> Vec<(Vec<u8>, Vec<u8>)> {
        if self.tree.links.is_empty() {
            return Vec::new();
        }
        let known: BTreeMap<Vec<u8>, Vec<u8>> = self.links(recorded.full);
        let is_known = |(path, target): &&(Vec<u8>, Vec<u8>)| known.get(path) == Some(target);
        self.tree.links.iter().filter(|link| !is_known(link)).cloned().collect()
    }

    /// Returns the files here that hold the tensors: shards that an index names, and the index.
    fn holding(&mut self) -> Result<BTreeSet<Vec<u8>>, Error> {
        let weights = self.weights()?;
        let holds = |path: &&Vec<u8>| is_container(path) && !is_unnamed(weights, path);
        Ok(weights.weights.iter().filter(holds).cloned().collect())
    }

    fn is_unnamed_shard(&mut self, path: &[u8]) -> Result<bool, Error> {
        Ok(is_unnamed(self.weights()?, path))
    }

    /// Returns whether an unrecorded file would run code when it is unpickled.
    ///
    /// Pickles that a loader of the model reads are told as such; those that only a resumed training reads are
    /// known by their names, whatever their suffix, and count as any other file.
    fn is_pickle(&self, path: &[u8]) -> Result<bool, Error> {
        let name = split(path).1;
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end.as_bytes()));
        if STATE.iter().any(|start| name.starts_with(start.as_bytes()))
            || ends(&[".pt", ".pth", ".bin", ".ckpt"])
        {
            return Ok(false);
        }
        if ends(&PICKLES) {
            return Ok(true);
        }
        let (open, _) = walk::open_regular(&self.locate(path))?;
        let mut start = Vec::new();
        // What cannot be read any more has changed since it was hashed, and is not recorded in any case.
        let _ = open.take(2).read_to_end(&mut start);
        // 0x80 and a version open every pickle since protocol 2.
        Ok(matches!(start[..], [0x80, 2..=5]))
    }

    /// Says that the tensors are those that were recorded, in what files they are, and what else is otherwise.
    pub(super) fn tell_tensors(
        &mut self,
        recorded: &Recorded,
        weights: &Listing,
        wrong: &[Vec<u8>],
    ) -> Result<(), Error> {
        let holding = self.holding()?;
        let count = self.weights()?.tensors.as_ref().map_or(0, |set| set.count);
        let names = |paths: &mut dyn Iterator<Item = &Vec<u8>>| -> Vec<String> {
            paths.map(|path| format!("`{}`", escape(path))).collect()
        };
        let was = names(&mut weights.keys().filter(|path| is_container(path)));
        let is = names(&mut holding.iter());
        let all = |names: &[String]| if names.len() > 2 { files(names.len()) } else { names.join(" and ") };
        let where_to = if was == is {
            format!("{} otherwise: {}", files(wrong.len()), some(&names(&mut wrong.iter())))
        } else {
            format!("recorded in {}, found in {}", all(&was), all(&is))
        };
        let text = format!("{count} of {count} tensors as recorded, {where_to}");
        self.report.add(Finding::new(Severity::Ok, "tensors", text).on(recorded.id));
        let beside = wrong.iter().filter(|path| !is_container(path));
        for path in beside {
            let is_here = self.tree.file(path).is_some();
            let brings = match () {
                () if !is_here => None,
                () if is_code(path) => Some("it is other code than was recorded"),
                () if self.has_custom_code(path)? => {
                    Some("it is not as recorded, and names code of its own (`auto_map`)")
                }
                () => None,
            };
            let severity = match (brings, self.request.extra) {
                (Some(_), Extra::Deny) => Severity::Fail,
                (Some(_), Extra::Allow) => continue,
                _ => Severity::Warn,
            };
            let slug = if brings.is_some() { "other-code" } else { "other-files" };
            let text = brings.unwrap_or(if is_here {
                "it is not as recorded; only tensors were asked about"
            } else {
                "it is recorded and not here; only tensors were asked about"
            });
            self.report.add(Finding::new(severity, slug, text).at(escape(path)).on(recorded.id));
        }
        Ok(())
    }

    /// Returns whether a configuration makes a loader run code that lies beside it or elsewhere.
    fn has_custom_code(&self, path: &[u8]) -> Result<bool, Error> {
        if !path.ends_with(b".json") {
            return Ok(false);
        }
        let (open, _) = walk::open_regular(&self.locate(path))?;
        let mut bytes = Vec::new();
        let read = open.take(MAX_CONFIG + 1).read_to_end(&mut bytes);
        let document = serde_json::from_slice::<serde_json::Value>(&bytes);
        // What cannot be understood here may be understood by a loader, so it is suspected if the word is in it.
        Ok(match (read, document) {
            (Ok(_), Ok(document)) => document.get("auto_map").is_some_and(|map| !map.is_null()),
            _ => bytes.windows(8).any(|window| window == b"auto_map"),
        })
    }
}
