//! Which library wrote a directory, told by marker files and, where names do not suffice, by what they hold.
//!
//! A directory of markers is a part; parts lie inside each other, as the checkpoints of a training in its output
//! directory. Nothing is decided by a layout later on: it names roles, says what to look at, and is shown.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Error, Scene};
use crate::model::content::{join, split};

/// What a directory or file is, by the library that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// `output_dir` of a Hugging Face Trainer: a final model, and `checkpoint-N` inside.
    HfTrainerOutput,
    /// One `checkpoint-N` of a Hugging Face Trainer.
    HfTrainer,
    /// What `save_pretrained` of transformers writes.
    HfModel,
    /// A pipeline of diffusers.
    Diffusers,
    /// An adapter of PEFT, without the model that it adapts.
    PeftAdapter,
    /// `save_state` of Accelerate.
    Accelerate,
    /// `ZeRO` and 3D-parallel checkpoints of `DeepSpeed`.
    DeepSpeed,
    /// `torch.distributed.checkpoint`.
    TorchDcp,
    /// `ModelCheckpoint` of Lightning.
    Lightning,
    /// Orbax of JAX.
    Orbax,
    /// One file of llama.cpp and its kin.
    Gguf,
    /// ONNX, with external data where it has some.
    Onnx,
    /// An archive of `torch.jit.save`, which holds code.
    TorchScript,
    /// Files of `torch.save`.
    Torch,
    /// Safetensors files without anything that says whose they are.
    Safetensors,
    /// Nothing that is known here.
    Unknown,
}

impl Layout {
    /// Returns the word that stands in records.
    pub const fn word(self) -> &'static str {
        self.words().0
    }

    /// Returns its name for people.
    pub const fn title(self) -> &'static str {
        self.words().1
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::HfTrainerOutput => ("hf-trainer-output", "HF Trainer output directory"),
            Self::HfTrainer => ("hf-trainer", "HF Trainer checkpoint"),
            Self::HfModel => ("hf-model", "HF model directory"),
            Self::Diffusers => ("diffusers", "diffusers pipeline"),
            Self::PeftAdapter => ("peft-adapter", "PEFT adapter"),
            Self::Accelerate => ("accelerate", "Accelerate state"),
            Self::DeepSpeed => ("deepspeed", "DeepSpeed checkpoint"),
            Self::TorchDcp => ("torch-dcp", "torch distributed checkpoint"),
            Self::Lightning => ("lightning", "Lightning checkpoint"),
            Self::Orbax => ("orbax", "Orbax checkpoint"),
            Self::Gguf => ("gguf", "GGUF model"),
            Self::Onnx => ("onnx", "ONNX model"),
            Self::TorchScript => ("torchscript", "TorchScript archive"),
            Self::Torch => ("torch", "torch weights"),
            Self::Safetensors => ("safetensors", "safetensors"),
            Self::Unknown => ("unknown", "files of no known layout"),
        }
    }

    /// Finds a layout by its word.
    pub fn from_word(word: &str) -> Option<Self> {
        const ALL: [Layout; 16] = [
            Layout::HfTrainerOutput,
            Layout::HfTrainer,
            Layout::HfModel,
            Layout::Diffusers,
            Layout::PeftAdapter,
            Layout::Accelerate,
            Layout::DeepSpeed,
            Layout::TorchDcp,
            Layout::Lightning,
            Layout::Orbax,
            Layout::Gguf,
            Layout::Onnx,
            Layout::TorchScript,
            Layout::Torch,
            Layout::Safetensors,
            Layout::Unknown,
        ];
        ALL.into_iter().find(|layout| layout.word() == word)
    }
}

/// The layouts of the directories below a path.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Directories with markers; the checkpoint's own is empty.
    pub(super) dirs: BTreeMap<Vec<u8>, Layout>,
}

impl Parts {
    /// Returns the innermost part that holds a path.
    pub(super) fn of(&self, path: &[u8]) -> Option<(&[u8], Layout)> {
        let mut dir = split(path).0;
        loop {
            if let Some((dir, layout)) = self.dirs.get_key_value(dir) {
                return Some((dir, *layout));
            }
            if dir.is_empty() {
                return None;
            }
            dir = split(dir).0;
        }
    }

    /// Returns the directory of the part of this layout that holds a path, however deep.
    pub(super) fn above(&self, path: &[u8], wanted: Layout) -> Option<&[u8]> {
        let mut dir = split(path).0;
        loop {
            if let Some((dir, _)) = self.dirs.get_key_value(dir).filter(|(_, layout)| **layout == wanted) {
                return Some(dir);
            }
            if dir.is_empty() {
                return None;
            }
            dir = split(dir).0;
        }
    }
}

/// Finds the parts by the names of files, and looks into a `config.json` or `latest` where names do not decide.
pub(super) fn recognise(scene: &Scene<'_>) -> Result<Parts, Error> {
    let mut names: BTreeMap<&[u8], BTreeSet<&[u8]>> = BTreeMap::new();
    for file in &scene.tree.files {
        let (dir, name) = split(&file.path);
        names.entry(dir).or_default().insert(name);
    }
    let mut parts = Parts::default();
    for (dir, names) in &names {
        let is_bookkeeping =
            dir.split(|byte| *byte == b'/').any(|part| matches!(part, b".cache" | b".git" | b".locks"));
        if !is_bookkeeping && let Some(layout) = marked(scene, dir, names)? {
            parts.dirs.insert(dir.to_vec(), layout);
        }
    }
    // The output directory of a training is known by the checkpoints in it.
    let outputs: BTreeSet<Vec<u8>> = parts
        .dirs
        .keys()
        .filter(|dir| trainer_step(dir).is_some())
        .map(|dir| split(dir).0.to_vec())
        .collect();
    for dir in outputs {
        let own = parts.dirs.get(&dir).copied();
        let is_training = parts.dirs.iter().any(|(part, layout)| {
            *layout == Layout::HfTrainer && trainer_step(part).is_some() && split(part).0 == dir
        });
        if is_training
            && matches!(own, None | Some(Layout::HfModel | Layout::PeftAdapter | Layout::HfTrainer))
        {
            parts.dirs.insert(dir, Layout::HfTrainerOutput);
        }
    }
    Ok(parts)
}

/// Reads the number of a `checkpoint-N`.
pub(super) fn trainer_step(dir: &[u8]) -> Option<u64> {
    let name = std::str::from_utf8(split(dir).1).ok()?;
    let number = name.strip_prefix("checkpoint-")?;
    if number.bytes().all(|byte| byte.is_ascii_digit()) { number.parse().ok() } else { None }
}

fn marked(scene: &Scene<'_>, dir: &[u8], names: &BTreeSet<&[u8]>) -> Result<Option<Layout>, Error> {
    let has = |name: &str| names.contains(name.as_bytes());
    let any = |start: &str, end: &str| {
        names.iter().any(|name| name.starts_with(start.as_bytes()) && name.ends_with(end.as_bytes()))
    };
    let own_name = if dir.is_empty() { scene.own_name() } else { split(dir).1.to_vec() };
    let is_named_step = trainer_step(&own_name).is_some();
    let is_numbered = is_named_step || own_name.starts_with(b"checkpoint_");
    Ok(if has("_CHECKPOINT_METADATA") || has("manifest.ocdbt") {
        Some(Layout::Orbax)
    } else if has("training_args.bin") || has("trainer_state.json") {
        let is_output = !(is_named_step || has("optimizer.pt") && has("training_args.bin"));
        Some(if is_output { Layout::HfTrainerOutput } else { Layout::HfTrainer })
    } else if any("random_states_", ".pkl") || has("optimizer.bin") && is_numbered {
        Some(Layout::Accelerate)
    } else if any("", "_model_states.pt") || any("", "optim_states.pt") {
        Some(Layout::DeepSpeed)
    } else if any("__", ".distcp") || has(".metadata") {
        Some(if has("meta.pt") { Layout::Lightning } else { Layout::TorchDcp })
    } else if has("model_index.json") {
        Some(Layout::Diffusers)
    } else if has("adapter_config.json") && !has("config.json") {
        Some(Layout::PeftAdapter)
    } else if has("config.json") && is_model(scene, &join(dir, b"config.json"))? {
        Some(Layout::HfModel)
    } else if has("optimizer.pt") && is_named_step {
        Some(Layout::HfTrainer)
    } else if has("latest") && deepspeed_tag(scene, dir)?.is_some() {
        Some(Layout::DeepSpeed)
    } else if any("", ".ckpt") {
        Some(Layout::Lightning)
    } else if any("", ".gguf") {
        Some(Layout::Gguf)
    } else if any("", ".onnx") {
        Some(Layout::Onnx)
    } else if any("", ".safetensors") {
        Some(Layout::Safetensors)
    } else if any("", ".pt") || any("", ".pth") || any("", ".bin") {
        Some(Layout::Torch)
    } else {
        None
    })
}

/// Reads the tag in the `latest` of `DeepSpeed`, if a directory of that name lies beside it.
pub(super) fn deepspeed_tag(scene: &Scene<'_>, dir: &[u8]) -> Result<Option<String>, Error> {
    let Some(file) = scene.tree.file(&join(dir, b"latest")) else { return Ok(None) };
    let Some(bytes) = scene.read_small(file, 256)? else { return Ok(None) };
    let tag = String::from_utf8_lossy(&bytes).trim().to_owned();
    let is_there = scene.tree.dirs.iter().any(|known| *known == join(dir, tag.as_bytes()));
    Ok(Some(tag).filter(|_| is_there))
}

fn is_model(scene: &Scene<'_>, path: &[u8]) -> Result<bool, Error> {
    let Some(config) = config(scene, path)? else { return Ok(false) };
    Ok(["architectures", "model_type"]
        .iter()
        .any(|key| config.get(key).is_some_and(|value| !value.is_null())))
}

/// Reads a `config.json` of ordinary size; one that is no JSON is nothing to a recogniser.
pub(super) fn config(scene: &Scene<'_>, path: &[u8]) -> Result<Option<Value>, Error> {
    const MAX_CONFIG: u64 = 4 << 20;
    let Some(file) = scene.tree.file(path) else { return Ok(None) };
    let Some(bytes) = scene.read_small(file, MAX_CONFIG)? else { return Ok(None) };
    Ok(serde_json::from_slice(&bytes).ok())
}

/// Returns the layout of the whole: that of its own directory, or the one that all or most parts have.
pub(super) fn whole(parts: &Parts) -> Layout {
    if let Some(layout) = parts.dirs.get(&b""[..]) {
        return *layout;
    }
    // The first in the order of the kinds: what says most about where the files came from.
    let is_top = |dir: &Vec<u8>| parts.of(dir).is_none();
    parts
        .dirs
        .iter()
        .filter(|(dir, _)| is_top(dir))
        .map(|(_, layout)| *layout)
        .min()
        .unwrap_or(Layout::Unknown)
}
