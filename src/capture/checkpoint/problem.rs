//! What can be wrong with a checkpoint, in the words that people read.
//!
//! A problem says how bad it is: a pointer stands in place of the weights, the weights are not all there, only
//! what a resumed training needs is not all there, or it is worth knowing and no more.

use crate::capture::safetensors;
use crate::model::content::escape;

/// How much a [`Problem`] spoils.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; everything is there.
    Note,
    /// The weights are whole, and a training cannot go on from here.
    Training,
    /// The weights are not all there.
    Weights,
    /// The weights are elsewhere, and what lies here only says where.
    Pointer,
}

/// Something that is wrong with a checkpoint. Paths are relative to its directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// There is no file at all.
    #[error("there is no file in it")]
    Empty,
    /// A pointer of git-lfs lies where the weights should be.
    #[error(
        "`{}` is a git-lfs pointer of {size} bytes, not the file itself{}; `git lfs pull` fetches it",
        escape(path),
        meant(target.as_ref())
    )]
    LfsPointer {
        /// The file.
        path: Vec<u8>,
        /// Bytes of the pointer.
        size: u64,
        /// SHA-256 in hex and bytes of the file that is meant, if the pointer says so.
        target: Option<(String, u64)>,
    },
    /// DVC describes a file that was not fetched.
    #[error("`{}` describes a file that is not there; `dvc pull` fetches it", escape(path))]
    DvcPointer {
        /// The `.dvc` file.
        path: Vec<u8>,
    },
    /// A loader would follow this link out of what was hashed.
    #[error(
        "`{}` is a symbolic link to `{}`, which is not a file of the checkpoint; `cp -rL` makes a whole copy",
        escape(path),
        escape(target)
    )]
    Link {
        /// The link.
        path: Vec<u8>,
        /// Where it points.
        target: Vec<u8>,
    },
    /// A safetensors file is cut short or malformed.
    #[error("`{}` is not a whole safetensors file", escape(path))]
    Damaged {
        /// The file.
        path: Vec<u8>,
        /// What is wrong with it.
        #[source]
        source: safetensors::Damage,
    },
    /// A file of another format is cut short or malformed.
    #[error("`{}` is not a whole {format} file: {why}", escape(path))]
    Malformed {
        /// The file.
        path: Vec<u8>,
        /// The format, as `GGUF`.
        format: &'static str,
        /// What is wrong with it.
        why: String,
        /// Whether a loader reads it, or only a resumed training.
        is_weights: bool,
    },
    /// An archive of `torch.save` or numpy has no end.
    #[error("`{}` is cut short: its archive has no directory at the end", escape(path))]
    TornArchive {
        /// The file.
        path: Vec<u8>,
        /// Whether a loader reads it, or only a resumed training.
        is_weights: bool,
    },
    /// Some files of a sharded set are not there.
    #[error("`{}` needs {} more: {}", escape(path), files(*count), some(named, *count))]
    MissingShards {
        /// The index, or a shard whose name tells how many there are.
        path: Vec<u8>,
        /// How many are missing.
        count: usize,
        /// The names of the first few.
        named: Vec<String>,
    },
    /// Some ranks of a distributed training have left no file, and others have.
    #[error("`{}` is there, and {} {} not: {}", escape(path), counted(*count, "rank"), is_are(*count), some(named, *count))]
    MissingRanks {
        /// A file of a rank that is there.
        path: Vec<u8>,
        /// How many are missing.
        count: usize,
        /// What the files of the first few would be called.
        named: Vec<String>,
        /// Whether they hold weights, or only what a resumed training needs.
        is_weights: bool,
    },
    /// A shard that the index does not name, so that no loader reads it.
    #[error("`{}` is not named by `{}`", escape(path), escape(index))]
    ExtraShard {
        /// The shard.
        path: Vec<u8>,
        /// The index beside it.
        index: Vec<u8>,
    },
    /// An index that cannot be understood in one way.
    #[error("`{}` is not an index of shards: {why}", escape(path))]
    BadIndex {
        /// The index.
        path: Vec<u8>,
        /// What is wrong with it.
        why: String,
    },
    /// The index promises a tensor that its shard does not hold.
    #[error("`{}` names tensor `{}` in `{}`, which does not hold it", escape(index), escape(tensor.as_bytes()), escape(shard))]
    NotInShard {
        /// The index.
        index: Vec<u8>,
        /// The tensor.
        tensor: String,
        /// The shard.
        shard: Vec<u8>,
    },
    /// A shard holds a tensor that its index does not name, so that no loader asks for it.
    #[error("`{}` holds tensor `{}`, which `{}` does not name", escape(shard), escape(tensor.as_bytes()), escape(index))]
    NotInIndex {
        /// The index.
        index: Vec<u8>,
        /// The tensor.
        tensor: String,
        /// The shard.
        shard: Vec<u8>,
    },
    /// The index states another number of bytes than the tensors have.
    #[error("`{}` says {stated} bytes of tensors, its shards hold {found}", escape(path))]
    TotalSize {
        /// The index.
        path: Vec<u8>,
        /// Bytes that it states.
        stated: u64,
        /// Bytes of the tensors.
        found: u64,
    },
    /// Two files hold a tensor of one name, and which one a loader takes is not known here.
    #[error("tensor `{}` stands in `{}` and in `{}`", escape(tensor.as_bytes()), escape(first), escape(second))]
    TensorTwice {
        /// The tensor.
        tensor: String,
        /// One file.
        first: Vec<u8>,
        /// The other.
        second: Vec<u8>,
    },
    /// The record over all tensors would be larger than a record may be.
    #[error("{count} tensors are too many for one record; files are compared instead")]
    TooManyTensors {
        /// How many there are.
        count: usize,
    },
    /// The file that a save writes last is not there.
    #[error("`{}` is missing, so the save did not finish", escape(path))]
    Unfinished {
        /// The file that is written last.
        path: Vec<u8>,
        /// Whether a loader reads it, or only a resumed training.
        is_weights: bool,
    },
    /// A training was stopped while it saved: the model is there, what comes after it is not.
    #[error(
        "`{}` was not finished: {} {} missing; the weights can be used, the training cannot go on from it",
        escape(dir),
        some(named, named.len()),
        is_are(named.len())
    )]
    Interrupted {
        /// The directory, or `.` for the checkpoint's own.
        dir: Vec<u8>,
        /// The files that are missing.
        named: Vec<String>,
    },
    /// The name of the directory and the trainer's state give different steps.
    #[error("the name says step {named}, `{}` says {stated}", escape(path))]
    StepDiffers {
        /// The state file.
        path: Vec<u8>,
        /// Step in the name, which is the one taken.
        named: u64,
        /// Step in the file.
        stated: u64,
    },
}

impl Problem {
    /// Returns how much it spoils.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::ExtraShard { .. }
            | Self::NotInIndex { .. }
            | Self::TotalSize { .. }
            | Self::TensorTwice { .. }
            | Self::TooManyTensors { .. }
            | Self::StepDiffers { .. } => Severity::Note,
            Self::Interrupted { .. } => Severity::Training,
            Self::TornArchive { is_weights, .. }
            | Self::Malformed { is_weights, .. }
            | Self::Unfinished { is_weights, .. }
            | Self::MissingRanks { is_weights, .. } => {
                if *is_weights {
                    Severity::Weights
                } else {
                    Severity::Training
                }
            }
            Self::LfsPointer { .. } | Self::DvcPointer { .. } => Severity::Pointer,
            _ => Severity::Weights,
        }
    }

    /// Returns whether the weights are not all there.
    pub const fn is_fatal(&self) -> bool {
        matches!(self.severity(), Severity::Weights | Severity::Pointer)
    }

    /// Returns the file or directory that it is about, as far as it is about one.
    pub fn path(&self) -> Option<&[u8]> {
        match self {
            Self::Empty | Self::TooManyTensors { .. } => None,
            Self::Interrupted { dir, .. } => Some(dir),
            Self::NotInShard { index, .. } | Self::NotInIndex { index, .. } => Some(index),
            Self::TensorTwice { first, .. } => Some(first),
            Self::LfsPointer { path, .. }
            | Self::DvcPointer { path }
            | Self::Link { path, .. }
            | Self::Damaged { path, .. }
            | Self::Malformed { path, .. }
            | Self::TornArchive { path, .. }
            | Self::MissingShards { path, .. }
            | Self::MissingRanks { path, .. }
            | Self::ExtraShard { path, .. }
            | Self::BadIndex { path, .. }
            | Self::TotalSize { path, .. }
            | Self::Unfinished { path, .. }
            | Self::StepDiffers { path, .. } => Some(path),
        }
    }

    /// Returns the whole text: what is wrong, and for a damaged file also where.
    pub fn text(&self) -> String {
        match self {
            Self::Damaged { source, .. } => format!("{self}: {source}"),
            _ => self.to_string(),
        }
    }
}

/// Of many missing files this many are named.
pub(super) const NAMED: usize = 4;

fn meant(target: Option<&(String, u64)>) -> String {
    target.map_or_else(String::new, |(digest, size)| {
        let shown = digest.get(..12).unwrap_or(digest);
        format!(" (sha256 {shown}.., {size} bytes)")
    })
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("one {what}") } else { format!("{count} {what}s") }
}

const fn is_are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn files(count: usize) -> String {
    counted(count, "file")
}

fn some(named: &[String], count: usize) -> String {
    let mut text: Vec<String> = named.iter().map(|name| format!("`{}`", escape(name.as_bytes()))).collect();
    if named.len() < count {
        text.push("...".into());
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_says_how_bad_it_is_and_where() {
        let torn = |is_weights| Problem::TornArchive { path: b"a.pt".to_vec(), is_weights };
        assert_eq!((torn(true).severity(), torn(false).severity()), (Severity::Weights, Severity::Training));
        assert!(torn(true).is_fatal() && !torn(false).is_fatal());
        let extra = Problem::ExtraShard { path: b"x".to_vec(), index: b"i".to_vec() };
        assert_eq!((extra.severity(), extra.path()), (Severity::Note, Some(&b"x"[..])));
        let pointer = Problem::LfsPointer {
            path: b"m".to_vec(),
            size: 130,
            target: Some(("2f08f521e37ca537".into(), 30_960)),
        };
        assert_eq!(pointer.severity(), Severity::Pointer);
        assert!(pointer.to_string().contains("(sha256 2f08f521e37c.., 30960 bytes)"), "{pointer}");
    }

    #[test]
    fn counts_read_well() {
        let missing = |count: usize| Problem::MissingRanks {
            path: b"r_0".to_vec(),
            count,
            named: (1..=count.min(2)).map(|rank| format!("r_{rank}")).collect(),
            is_weights: true,
        };
        assert_eq!(missing(1).to_string(), "`r_0` is there, and one rank is not: `r_1`");
        assert_eq!(missing(3).to_string(), "`r_0` is there, and 3 ranks are not: `r_1`, `r_2`, ...");
        let interrupted = Problem::Interrupted { dir: b".".to_vec(), named: vec!["a".into(), "b".into()] };
        assert_eq!(
            interrupted.to_string(),
            "`.` was not finished: `a`, `b` are missing; the weights can be used, the training cannot go on from it"
        );
    }
}
