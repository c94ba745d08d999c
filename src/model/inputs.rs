//! Records of what goes into a run: config, code, environment, data, base models, and what is kept private.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::ObjectId;

use super::{Bytes, Fixed, Kind, Link, Record, TypedId};

/// A frozen configuration. The values stand in the frozen JSON only, which holds integers of any size.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Canonical JSON (profile `python-json`), a blob.
    pub frozen: TypedId,
    /// The files that were merged, in order, as they were on disk.
    pub sources: Vec<TypedId>,
}

impl Record for Config {
    const KIND: Kind = Kind::Config;

    fn links(&self) -> Vec<Link> {
        let sources = self.sources.iter().map(|source| Link::new("source", *source));
        sources.chain([Link::new("frozen", self.frozen)]).collect()
    }
}

/// Whether tracked files differ from the commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dirt {
    /// They do not.
    Clean,
    /// They do; the diff is stored.
    Dirty,
    /// It could not be found out; the reason is stated.
    Unknown,
}

/// A submodule as it was checked out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submodule {
    /// Path in the work tree.
    pub path: Bytes,
    /// Hex of the commit that was checked out.
    pub commit: String,
    /// Whether its tracked files differ from that commit.
    pub dirty: bool,
}

/// State of the code: a commit, and what differs from it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// `sha1` or `sha256`.
    pub format: String,
    /// Hex of the commit.
    pub commit: String,
    /// Hex of the commit's tree.
    pub tree: String,
    /// Path of the project in the work tree, empty at its top.
    pub project: Bytes,
    /// Whether tracked files differ.
    pub dirt: Dirt,
    /// Why `dirt` is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Files that differ: path and one letter of git's status.
    pub files: Vec<(Bytes, String)>,
    /// The whole difference as a patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<TypedId>,
    /// Submodules, sorted by path.
    pub submodules: Vec<Submodule>,
}

impl Record for Code {
    const KIND: Kind = Kind::Code;

    fn links(&self) -> Vec<Link> {
        self.diff.iter().map(|diff| Link::new("diff", *diff)).collect()
    }

    fn check(&self) -> Result<(), &'static str> {
        let sorted = super::ascending(&self.files, |(path, _)| path.clone())
            && super::ascending(&self.submodules, |module| module.path.clone());
        match self.dirt {
            _ if !sorted => Err("files or submodules are not in ascending order"),
            Dirt::Unknown if self.reason.is_none() => Err("`reason` is absent"),
            Dirt::Clean if self.diff.is_some() || !self.files.is_empty() => {
                Err("clean code has no difference")
            }
            _ => Ok(()),
        }
    }
}

/// A lock file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    /// File name, as `uv.lock`.
    pub name: String,
    /// `hashed`, `pinned`, `loose` or `unknown`.
    pub quality: String,
    /// The file's bytes.
    pub file: TypedId,
    /// How many packages it names, without the project itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<u64>,
    /// How many of its lines install a directory as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editable: Option<u64>,
}

/// The interpreter that the command names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interpreter {
    /// As `CPython`.
    pub name: String,
    /// As `3.11.7`.
    pub version: String,
}

/// What was found installed for the interpreter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Installed {
    /// The list, as JSON: names, versions, origins, and what departs from the lock file.
    pub file: TypedId,
    /// How many distributions.
    pub packages: u64,
    /// How many the lock file requires that are not there; absent, as the next two, where it could not be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<u64>,
    /// How many have another version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<u64>,
    /// How many it does not name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<u64>,
}

/// The machine that an attempt ran on, without what names one machine only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Release of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Model of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Processors that the attempt could use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u64>,
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The accelerators' driver and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Models of the accelerators, one for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
}

/// What an attempt was contained in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// As `docker`.
    pub runtime: String,
    /// Digest of the image, as `sha256:..`, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// Software environment. A plan states what was declared, a start what it met.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// The lock file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockFile>,
    /// The interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<Interpreter>,
    /// Operating system, as `linux`.
    pub os: String,
    /// Processor family, as `x86_64`.
    pub arch: String,
    /// What was found installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<Installed>,
    /// The machine; in what a start met only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The container; in what a start met only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// How the attempt was launched, as `world_size`; in what a start met only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub launch: BTreeMap<String, String>,
}

impl Environment {
    /// Returns what was declared of it: without what happened to be installed, and where.
    #[must_use]
    pub fn declared(&self) -> Self {
        Self { installed: None, hardware: None, container: None, launch: BTreeMap::new(), ..self.clone() }
    }
}

impl Record for Environment {
    const KIND: Kind = Kind::Environment;

    fn links(&self) -> Vec<Link> {
        let lock = self.lock.iter().map(|lock| Link::new("lock", lock.file));
        lock.chain(self.installed.iter().map(|found| Link::new("installed", found.file))).collect()
    }
}

macro_rules! content_only {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// A tree, or a blob for a single file.
            pub root: TypedId,
        }

        impl Record for $name {
            const KIND: Kind = Kind::$name;

            fn links(&self) -> Vec<Link> {
                vec![Link::new("root", self.root)]
            }

            fn facts(&self) -> super::Facts {
                super::Facts::Named { name: None }
            }
        }
    };
}

content_only! {
    /// Data, by content only: name and licence stand beside it, so that they do not move the id.
    Dataset
}
content_only! {
    /// A base model, by content only.
    Model
}

macro_rules! document {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// The file's bytes.
            pub text: TypedId,
        }

        impl Record for $name {
            const KIND: Kind = Kind::$name;

            fn links(&self) -> Vec<Link> {
                vec![Link::new("text", self.text)]
            }
        }
    };
}

document! {
    /// A file that says what a config, or a spec and its result, must look like.
    Contract
}
document! {
    /// A contract over facts of the ledger.
    Policy
}

/// What identifies people and machines, salted so that it cannot be guessed from its digest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Private {
    /// 32 random bytes.
    pub salt: Fixed<32>,
    /// Verbatim arguments, secrets removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// Texts by what they are: `branch`, `remote`, `host`, `user`, `root`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
    /// Paths by input role, relative to the directory that holds the ledger where they lie under it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, String>,
    /// Allowed environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// One digest over (path, size, modification time) of each input: equal means that it need not be read again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stats: BTreeMap<String, ObjectId>,
}

impl Record for Private {
    const KIND: Kind = Kind::Private;

    fn links(&self) -> Vec<Link> {
        Vec::new()
    }
}

/// Free descriptions that must not move an id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Texts by what they are: `reason`, `licence`, `source`, `description`.
    pub texts: BTreeMap<String, String>,
}

impl Record for About {
    const KIND: Kind = Kind::About;

    fn links(&self) -> Vec<Link> {
        Vec::new()
    }
}
