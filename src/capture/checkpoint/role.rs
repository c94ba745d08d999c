//! What each file of a checkpoint is for, by its name and the layout that it lies in.
//!
//! Roles divide what a loader of the model reads from what only a resumed training or a reader needs. The set
//! that is found goes into the record as data, so these rules may grow without changing what was recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Layout, Parts};
use crate::capture::walk::Tree;
use crate::model::content::split;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Values of the model.
    Weights,
    /// Says which file holds which part of the weights.
    Index,
    /// How the model is built.
    Config,
    /// Text to tokens and back, with chat templates.
    Tokenizer,
    /// Code that a loader may run.
    Code,
    /// State of the optimizer.
    Optimizer,
    /// State of the learning-rate schedule.
    Scheduler,
    /// State of random number generators.
    Rng,
    /// The rest of what a resumed training needs: steps taken, arguments, samplers, scalers.
    Trainer,
    /// A description for people.
    Readme,
    /// What the training reported.
    Log,
    /// Nothing of these.
    Other,
}

impl Role {
    /// All roles in the order in which people are told of them.
    pub const ALL: [Self; 12] = [
        Self::Weights,
        Self::Index,
        Self::Config,
        Self::Tokenizer,
        Self::Code,
        Self::Optimizer,
        Self::Scheduler,
        Self::Rng,
        Self::Trainer,
        Self::Readme,
        Self::Log,
        Self::Other,
    ];

    /// Returns the word that stands in records.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Index => "index",
            Self::Config => "config",
            Self::Tokenizer => "tokenizer",
            Self::Code => "code",
            Self::Optimizer => "optimizer",
            Self::Scheduler => "scheduler",
            Self::Rng => "rng",
            Self::Trainer => "trainer",
            Self::Readme => "readme",
            Self::Log => "log",
            Self::Other => "other",
        }
    }

    /// Returns whether a loader of the model reads such files.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Weights | Self::Index | Self::Config | Self::Tokenizer | Self::Code)
    }
}

/// Suffixes of weights themselves.
const WEIGHTS: [&str; 15] = [
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".npz",
    ".npy",
    ".gguf",
    ".onnx",
    ".onnx.data",
    ".onnx_data",
    ".distcp",
    ".h5",
    ".keras",
    ".msgpack",
];
const CONFIG: [&str; 13] = [
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "quantization_config.json",
    "quantize_config.json",
    "model_index.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "params.json",
];
const TOKENIZER: [&str; 9] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
];
/// Beginnings of names that belong to the training, not to the model.
const TRAINING: [(&str, Role); 12] = [
    ("optimizer", Role::Optimizer),
    ("scheduler", Role::Scheduler),
    ("rng_state", Role::Rng),
    ("random_states", Role::Rng),
    ("sampler", Role::Trainer),
    ("dl_state_dict", Role::Trainer),
    ("custom_checkpoint", Role::Trainer),
    ("training_args.bin", Role::Trainer),
    ("trainer_state.json", Role::Trainer),
    ("state.json", Role::Trainer),
    ("scaler", Role::Trainer),
    ("hparams.yaml", Role::Trainer),
];
const LOGS: [&str; 7] = [
    "all_results.json",
    "train_results.json",
    "eval_results.json",
    "predict_results.json",
    "trainer_log.jsonl",
    "metrics.csv",
    "events.out.tfevents",
];

/// Returns the role that a name has wherever it lies.
pub(super) fn by_name(path: &[u8]) -> Role {
    let (dirs, name) = split(path);
    let in_dir = |wanted: &dyn Fn(&[u8]) -> bool| dirs.split(|byte| *byte == b'/').any(wanted);
    let is_one = |known: &[&str]| known.iter().any(|known| name == known.as_bytes());
    if in_dir(&|dir| matches!(dir, b".cache" | b".git" | b".locks" | b".no_exist")) {
        return Role::Other;
    }
    if in_dir(&|dir| dir.starts_with(b"optimizer")) || contains(name, b"optim_states") {
        return Role::Optimizer;
    }
    if let Some((_, role)) = TRAINING.iter().find(|(start, _)| name.starts_with(start.as_bytes())) {
        return *role;
    }
    if WEIGHTS.iter().any(|end| name.ends_with(end.as_bytes())) {
        return Role::Weights;
    }
    if name.ends_with(b".index.json") || name == b".metadata" {
        return Role::Index;
    }
    if is_one(&CONFIG) {
        return Role::Config;
    }
    let is_template = name.starts_with(b"chat_template.") || dirs.ends_with(b"additional_chat_templates");
    if is_one(&TOKENIZER) || name.starts_with(b"vocab.") || is_template {
        return Role::Tokenizer;
    }
    if name.ends_with(b".py") {
        return Role::Code;
    }
    if name.starts_with(b"README") || name.starts_with(b"LICENSE") || name.ends_with(b".md") {
        return Role::Readme;
    }
    if LOGS.iter().any(|start| name.starts_with(start.as_bytes())) || name.ends_with(b".log") {
        return Role::Log;
    }
    Role::Other
}

/// Returns the role of every file; `data` are files that an ONNX model names as its weights.
pub(super) fn assign(tree: &Tree, parts: &Parts, data: &BTreeSet<Vec<u8>>) -> BTreeMap<Vec<u8>, Role> {
    let role = |path: &Vec<u8>| {
        let name = split(path).1;
        if data.contains(path) {
            return Role::Weights;
        }
        if parts.above(path, Layout::Orbax).is_some() {
            return in_orbax(name, by_name(path));
        }
        if let Some(dir) = parts.above(path, Layout::DeepSpeed) {
            // Its own converters are copied into every checkpoint, and no loader runs them.
            if name.starts_with(b"zero_to_") && name.ends_with(b".py") {
                return Role::Other;
            }
            if name == b"latest" && split(path).0 == dir {
                return Role::Index;
            }
        }
        by_name(path)
    };
    tree.files.iter().map(|file| (file.path.clone(), role(&file.path))).collect()
}

/// Files of Orbax have no suffixes: what is no description is a part of the arrays.
fn in_orbax(name: &[u8], role: Role) -> Role {
    match name {
        b"_METADATA" | b"_CHECKPOINT_METADATA" | b"_sharding" => Role::Index,
        b"commit_success.txt" => Role::Other,
        _ if name.starts_with(b"process_") => Role::Index,
        _ if role == Role::Other => Role::Weights,
        _ => role,
    }
}

/// Returns the files that a loader reads: those of its roles, or all if no file holds weights.
pub(super) fn read_by_loader(roles: &BTreeMap<Vec<u8>, Role>) -> BTreeSet<Vec<u8>> {
    // In an unknown format a configuration alone must not stand for the whole.
    let is_known = roles.values().any(|role| *role == Role::Weights);
    roles.iter().filter(|(_, role)| !is_known || role.is_read()).map(|(path, _)| path.clone()).collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_file_is_for() {
        for (path, role) in [
            ("model.safetensors", Role::Weights),
            ("model.safetensors.index.json", Role::Index),
            ("config.json", Role::Config),
            ("train_config.json", Role::Other),
            ("vocab.txt", Role::Tokenizer),
            ("additional_chat_templates/tool.jinja", Role::Tokenizer),
            ("modeling_custom.py", Role::Code),
            ("optimizer.bin", Role::Optimizer),
            ("optimizer.safetensors", Role::Optimizer),
            ("optimizer_0/__0_0.distcp", Role::Optimizer),
            ("optimizer_0/.metadata", Role::Optimizer),
            ("bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", Role::Optimizer),
            ("scheduler.pt", Role::Scheduler),
            ("rng_state_0.pth", Role::Rng),
            ("random_states_0.pkl", Role::Rng),
            ("training_args.bin", Role::Trainer),
            ("trainer_state.json", Role::Trainer),
            ("README.md", Role::Readme),
            ("runs/x/events.out.tfevents.1.host.2.0", Role::Log),
            (".cache/huggingface/download/config.json.metadata", Role::Other),
            (".cache/x/model.safetensors", Role::Other),
            ("notes", Role::Other),
        ] {
            assert_eq!(by_name(path.as_bytes()), role, "{path}");
        }
    }

    #[test]
    fn every_role_has_a_word_of_its_own() {
        let words: BTreeSet<&str> = Role::ALL.iter().map(|role| role.word()).collect();
        assert_eq!(words.len(), Role::ALL.len());
        assert!(Role::Weights.is_read() && !Role::Optimizer.is_read());
    }
}
