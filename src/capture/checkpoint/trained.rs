//! What a checkpoint says of its training: step, epoch, tokens, best checkpoint, adapter, and whether a save was cut.
//!
//! Everything is read from JSON, from names, or from numbers that stand in a pickle; nothing is unpickled.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::layout::{self, Layout, Parts};
use super::ranks::ByFile;
use super::{Error, Problem, Scene};
use crate::capture::walk::Root;
use crate::model::content::{join, split};

/// How far a training had come.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Training {
    /// The training step, from the directory's name or the trainer's state.
    pub step: Option<u64>,
    /// Passes over the data, in the decimal text that stands there.
    pub epoch: Option<String>,
    /// Tokens of input, where the trainer counts them.
    pub tokens: Option<u64>,
    /// The best checkpoint so far, as the trainer names it: a path from where it ran.
    pub best: Option<String>,
}

/// An adapter of PEFT, as its `adapter_config.json` describes it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// The method, as `LORA`.
    pub method: String,
    /// Name or path of the model that it adapts.
    pub base: Option<String>,
    /// Revision of that model, where it is pinned.
    pub revision: Option<String>,
    /// Rank of the matrices.
    pub rank: Option<u64>,
    /// Their weight, in the decimal text that stands there.
    pub alpha: Option<String>,
    /// Modules that are adapted, or a pattern for them.
    pub targets: Vec<String>,
}

/// Trainer states hold a log that grows with every step.
const MAX_STATE: u64 = 64 << 20;

/// Reads how far the training had come.
pub(super) fn read(
    scene: &Scene<'_>,
    parts: &Parts,
    found: &ByFile,
    problems: &mut Vec<Problem>,
) -> Result<Training, Error> {
    let name = scene.own_name();
    let name = std::str::from_utf8(&name).unwrap_or_default();
    let mut training =
        Training { step: step_in_name(name), epoch: epoch_in_name(name), ..Training::default() };
    let own = parts.dirs.get(&b""[..]).copied();
    if own == Some(Layout::Orbax) {
        // Its manager names a step by the number alone.
        training.step = training.step.or_else(|| name.parse().ok());
    }
    if scene.tree.root == Root::Dir {
        for state in ["trainer_state.json", "state.json"] {
            if read_state(scene, state, &mut training, problems)? {
                break;
            }
        }
        if own == Some(Layout::DeepSpeed) && training.step.is_none() {
            training.step = layout::deepspeed_tag(scene, b"")?.as_deref().and_then(step_in_name);
        }
    }
    // One file of Lightning states both beside each other; a directory of several has no step of its own.
    if let ([file], Some(Layout::Lightning)) = (&scene.tree.files[..], own)
        && let Some(found) = found.get(&file.path)
    {
        let both = found.groups.iter().find(|g| g.get("epoch").is_some() && g.get("global_step").is_some());
        let number = |key: &str| both.and_then(|group| group.get(key)).and_then(super::pickle::Value::count);
        training.step = training.step.or_else(|| number("global_step"));
        training.epoch = training.epoch.or_else(|| number("epoch").map(|epoch| epoch.to_string()));
    }
    Ok(training)
}

fn read_state(
    scene: &Scene<'_>,
    name: &str,
    training: &mut Training,
    problems: &mut Vec<Problem>,
) -> Result<bool, Error> {
    let Some(file) = scene.tree.file(name.as_bytes()) else { return Ok(false) };
    let Some(bytes) = scene.read_small(file, MAX_STATE)? else { return Ok(false) };
    let Ok(state) = serde_json::from_slice::<State>(&bytes) else { return Ok(false) };
    let Some(stated) = state.global_step.count().or(state.step.count()) else { return Ok(false) };
    match training.step {
        Some(named) if named != stated => {
            problems.push(Problem::StepDiffers { path: file.path.clone(), named, stated });
        }
        _ => training.step = Some(stated),
    }
    training.epoch = state.epoch.decimal().or_else(|| training.epoch.take());
    training.tokens = state.num_input_tokens_seen.count().filter(|tokens| *tokens > 0);
    training.best = state.best_model_checkpoint.text();
    Ok(true)
}

/// Finds saves that were cut off: each library writes some file last, and it is not there.
pub(super) fn check_interrupted(scene: &Scene<'_>, parts: &Parts, problems: &mut Vec<Problem>) {
    for (dir, layout) in &parts.dirs {
        let has = |name: &str| scene.tree.file(&join(dir, name.as_bytes())).is_some();
        let any = |start: &str| {
            scene.tree.files.iter().any(|file| {
                let (of, name) = split(&file.path);
                of == &dir[..] && name.starts_with(start.as_bytes())
            })
        };
        let mut named: Vec<String> = Vec::new();
        match layout {
            // Model and arguments come first, then optimizer, scheduler and random state, and the state last.
            Layout::HfTrainer if !has("trainer_state.json") => {
                if has("optimizer.pt") {
                    named.extend(
                        [("scheduler", "scheduler.pt"), ("rng_state", "rng_state.pth")]
                            .iter()
                            .filter(|(start, _)| !any(start))
                            .map(|(_, name)| (*name).to_owned()),
                    );
                }
                named.push("trainer_state.json".into());
            }
            Layout::Accelerate if !any("random_states_") => named.push("random_states_0.pkl".into()),
            _ => {}
        }
        if !named.is_empty() {
            let shown = if dir.is_empty() { scene.own_name() } else { dir.clone() };
            problems.push(Problem::Interrupted { dir: shown, named });
        }
        if *layout == Layout::Orbax {
            check_orbax(scene, dir, problems);
        }
    }
}

/// An array store needs its manifest, and a directory under a temporary name was never renamed to its own.
fn check_orbax(scene: &Scene<'_>, dir: &[u8], problems: &mut Vec<Problem>) {
    let below = |name: &str| join(dir, name.as_bytes());
    let is_dir = |path: &[u8]| scene.tree.dirs.iter().any(|known| known == path);
    if is_dir(&below("d")) && scene.tree.file(&below("manifest.ocdbt")).is_none() {
        problems.push(Problem::Unfinished { path: below("manifest.ocdbt"), is_weights: true });
    }
    let name = if dir.is_empty() { scene.own_name() } else { dir.to_vec() };
    let name = String::from_utf8_lossy(split(&name).1).into_owned();
    if let Some((last, _)) = name.split_once(".orbax-checkpoint-tmp") {
        problems.push(Problem::Unfinished { path: last.as_bytes().to_vec(), is_weights: true });
    }
}

/// Reads the description of an adapter in the checkpoint's own directory.
pub(super) fn adapter(scene: &Scene<'_>) -> Result<Option<Adapter>, Error> {
    const MAX_TARGETS: usize = 1000;
    let Some(config) = layout::config(scene, b"adapter_config.json")? else { return Ok(None) };
    let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
    let Some(method) = text("peft_type") else { return Ok(None) };
    let targets = match config.get("target_modules") {
        Some(Value::String(pattern)) => vec![pattern.clone()],
        Some(Value::Array(names)) => {
            let mut names: Vec<String> =
                names.iter().filter_map(Value::as_str).take(MAX_TARGETS).map(str::to_owned).collect();
            // PEFT keeps them as a set, whose order differs from save to save.
            names.sort_unstable();
            names.dedup();
            names
        }
        _ => Vec::new(),
    };
    Ok(Some(Adapter {
        method,
        base: text("base_model_name_or_path").filter(|name| !name.is_empty()),
        revision: text("revision").filter(|name| !name.is_empty()),
        rank: config.get("r").and_then(Value::as_u64),
        alpha: config.get("lora_alpha").and_then(Value::as_number).map(ToString::to_string),
        targets,
    }))
}

/// Returns the files that run code when the model is loaded with `trust_remote_code`: what `auto_map` names.
pub(super) fn has_custom_code(scene: &Scene<'_>) -> Result<bool, Error> {
    for file in &scene.tree.files {
        let name = split(&file.path).1;
        if matches!(name, b"config.json" | b"tokenizer_config.json" | b"processor_config.json")
            && let Some(config) = layout::config(scene, &file.path)?
            && config.get("auto_map").and_then(Value::as_object).is_some_and(|map| !map.is_empty())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads `checkpoint-500`, `global_step2`, `epoch=2-step=12` and the like.
pub(super) fn step_in_name(name: &str) -> Option<u64> {
    let stem = without_suffix(name);
    let word = stem.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = stem[word.len()..].parse().ok()?;
    let word = word.strip_suffix(['-', '_', '=']).unwrap_or(word);
    ["step", "checkpoint", "ckpt", "iter"].iter().any(|known| word.ends_with(known)).then_some(number)
}

/// Reads the epoch of `epoch=2-step=12`.
pub(super) fn epoch_in_name(name: &str) -> Option<String> {
    let (_, rest) = without_suffix(name).split_once("epoch=")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && digits < 20).then(|| rest[..digits].to_owned())
}

fn without_suffix(name: &str) -> &str {
    [".ckpt", ".pt", ".pth", ".bin", ".safetensors", ".npz"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name)
}

/// What a trainer's state says; the rest is free, and these files are not ours to judge.
#[derive(Deserialize)]
struct State {
    #[serde(default)]
    step: Loose,
    #[serde(default)]
    global_step: Loose,
    #[serde(default)]
    epoch: Loose,
    #[serde(default)]
    num_input_tokens_seen: Loose,
    #[serde(default)]
    best_model_checkpoint: Loose,
}

/// A number or a text of ordinary size; anything else is stepped over and costs no memory.
#[derive(Default)]
enum Loose {
    Number(String),
    Text(String),
    #[default]
    Other,
}

impl Loose {
    fn count(&self) -> Option<u64> {
        match self {
            Self::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn decimal(self) -> Option<String> {
        match self {
            Self::Number(text) if text.len() <= 64 => Some(text),
            _ => None,
        }
    }

    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) if text.len() <= 4096 => Some(text),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Loose;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a text")
            }

            fn visit_bool<E>(self, _: bool) -> Result<Loose, E> {
                Ok(Loose::Other)
            }

            fn visit_unit<E>(self) -> Result<Loose, E> {
                Ok(Loose::Other)
            }

            fn visit_u64<E>(self, number: u64) -> Result<Loose, E> {
                Ok(Loose::Number(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Loose, E> {
                Ok(Loose::Number(number.to_string()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Loose, E> {
                Ok(Loose::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Loose, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Loose::Other)
            }

            // Other numbers come with their exact text, as maps of one entry.
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loose, A::Error> {
                let number = Number::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Loose::Number(number.to_string()))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_epochs_are_read_from_names() {
        for (name, step, epoch) in [
            ("step-300", Some(300), None),
            ("checkpoint-500", Some(500), None),
            ("checkpoint_1", Some(1), None),
            ("global_step2", Some(2), None),
            ("step_7", Some(7), None),
            ("epoch=2-step=12", Some(12), Some("2")),
            ("epoch=2-step=12.ckpt", Some(12), Some("2")),
            ("iter_0000500", Some(500), None),
            ("model", None, None),
            ("step", None, None),
            ("step-", None, None),
            ("epoch=", None, None),
            ("llama-7", None, None),
            ("step-99999999999999999999", None, None),
            ("step-3-old", None, None),
        ] {
            assert_eq!((step_in_name(name), epoch_in_name(name).as_deref()), (step, epoch), "{name}");
        }
    }
}
