//! The table of kinds: for each kind its word in bytes, its id prefix, who may state it and what it links to.
//!
//! This is `store-format/records.md` as data; a test holds the two together. The fold reads the table, the
//! commands read it for prefixes, and nothing else decides what a kind may do. Facts stand in `facts.rs`.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an object is, as claims and references name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the table below says what each kind is")]
#[repr(u8)]
pub enum Kind {
    Genesis,
    Holder,
    Key,
    Format,
    Config,
    Dataset,
    Tree,
    Sums,
    Tensors,
    Code,
    Environment,
    Model,
    Contract,
    Policy,
    Private,
    About,
    Plan,
    Start,
    End,
    Checkpoint,
    Transform,
    Benchmark,
    Eval,
    PaperClaim,
    Observation,
    Import,
    Verdict,
    Approval,
    Promotion,
    Deployment,
    Channel,
    Revocation,
    Erasure,
    Name,
    Note,
    Blob,
}

/// How often a role may stand in one claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// Exactly once.
    One,
    /// Once or not at all.
    Optional,
    /// Any number of times.
    Many,
    /// Once at least.
    Some,
}

/// One link role of a kind.
#[derive(Clone, Copy, Debug)]
pub struct LinkRule {
    /// The role's word.
    pub role: &'static str,
    /// Kinds that may stand there; empty means any.
    pub kinds: &'static [Kind],
    /// Kinds that need an accepted claim, earlier or in the same statement. Content needs none.
    pub claimed: &'static [Kind],
    /// How often.
    pub count: Count,
    /// Signed in the claim but not part of the record's bytes, and so not of its id.
    pub claim_only: bool,
}

/// Who may state a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatedBy {
    /// Never a claim: an object only.
    Nobody,
    /// A holder with one of these roles.
    Roles(&'static [super::Role]),
    /// Statement 0, by the owner key that it introduces.
    FirstStatement,
    /// Statement 0; an owner; recovery for owner keys; a holder who empties the roles of an own key.
    KeyRules,
    /// Whoever stated the linked start or its plan, or an owner.
    RunOrOwner,
    /// An author; with a `start` link, as `RunOrOwner`.
    AuthorOfRun,
    /// Claims by their own author; claims and objects by evaluators and owners; keys by owners and recovery.
    RevocationRules,
}

use super::Role::{Approver, Author, Evaluator, Owner, Reviewer};
use Count::{Many, One, Optional, Some as AtLeastOne};

const fn link(role: &'static str, kinds: &'static [Kind], count: Count) -> LinkRule {
    LinkRule { role, kinds, claimed: &[], count, claim_only: false }
}

const fn claimed(
    role: &'static str,
    kinds: &'static [Kind],
    must: &'static [Kind],
    count: Count,
) -> LinkRule {
    LinkRule { role, kinds, claimed: must, count, claim_only: false }
}

const fn beside(role: &'static str, kinds: &'static [Kind], count: Count) -> LinkRule {
    LinkRule { role, kinds, claimed: &[], count, claim_only: true }
}

/// Links that every claim may carry.
pub const COMMON_LINKS: &[LinkRule] =
    &[beside("private", &[Kind::Private], Optional), beside("about", &[Kind::About], Optional)];

/// All kinds that can be claimed: `any!` in the table.
const CLAIMS: &[Kind] = &[
    Kind::Dataset,
    Kind::Model,
    Kind::Plan,
    Kind::Start,
    Kind::End,
    Kind::Checkpoint,
    Kind::Transform,
    Kind::Eval,
    Kind::PaperClaim,
    Kind::Observation,
    Kind::Import,
    Kind::Verdict,
    Kind::Approval,
    Kind::Promotion,
    Kind::Deployment,
    Kind::Channel,
    Kind::Revocation,
    Kind::Erasure,
    Kind::Name,
    Kind::Note,
    Kind::Key,
    Kind::Genesis,
    Kind::Format,
];
const CONTENT: &[Kind] = &[Kind::Tree, Kind::Blob];
const CK: &[Kind] = &[Kind::Checkpoint];
const BASE: &[Kind] = &[Kind::Model, Kind::Checkpoint];
const PLAN: &[Kind] = &[Kind::Plan];
const START: &[Kind] = &[Kind::Start];
const BLOB: &[Kind] = &[Kind::Blob];
const TREE: &[Kind] = &[Kind::Tree];
const SUMS: &[Kind] = &[Kind::Sums];
const POLICY: &[Kind] = &[Kind::Policy];
const VERDICT: &[Kind] = &[Kind::Verdict];
const EVAL: &[Kind] = &[Kind::Eval];

impl Kind {
    /// Every kind that has a word, in the order of the table.
    pub const ALL: [Self; 36] = [
        Self::Genesis,
        Self::Holder,
        Self::Key,
        Self::Format,
        Self::Config,
        Self::Dataset,
        Self::Tree,
        Self::Sums,
        Self::Tensors,
        Self::Code,
        Self::Environment,
        Self::Model,
        Self::Contract,
        Self::Policy,
        Self::Private,
        Self::About,
        Self::Plan,
        Self::Start,
        Self::End,
        Self::Checkpoint,
        Self::Transform,
        Self::Benchmark,
        Self::Eval,
        Self::PaperClaim,
        Self::Observation,
        Self::Import,
        Self::Verdict,
        Self::Approval,
        Self::Promotion,
        Self::Deployment,
        Self::Channel,
        Self::Revocation,
        Self::Erasure,
        Self::Name,
        Self::Note,
        Self::Blob,
    ];

    /// Returns the word in bytes and the prefix of ids.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Genesis => ("genesis", "genesis"),
            Self::Holder => ("holder", "holder"),
            Self::Key => ("key", "key"),
            Self::Format => ("format", "format"),
            Self::Config => ("config", "cfg"),
            Self::Dataset => ("dataset", "data"),
            Self::Tree => ("tree", "tree"),
            Self::Sums => ("sums", "sums"),
            Self::Tensors => ("tensors", "tensors"),
            Self::Code => ("code", "code"),
            Self::Environment => ("environment", "env"),
            Self::Model => ("model", "model"),
            Self::Contract => ("contract", "contract"),
            Self::Policy => ("policy", "policy"),
            Self::Private => ("private", "private"),
            Self::About => ("about", "about"),
            Self::Plan => ("plan", "run"),
            Self::Start => ("start", "start"),
            Self::End => ("end", "end"),
            Self::Checkpoint => ("checkpoint", "ck"),
            Self::Transform => ("transform", "tf"),
            Self::Benchmark => ("benchmark", "bench"),
            Self::Eval => ("eval", "eval"),
            Self::PaperClaim => ("paper-claim", "claim"),
            Self::Observation => ("observation", "obs"),
            Self::Import => ("import", "import"),
            Self::Verdict => ("verdict", "verdict"),
            Self::Approval => ("approval", "approval"),
            Self::Promotion => ("promotion", "promotion"),
            Self::Deployment => ("deployment", "deploy"),
            Self::Channel => ("channel", "channel"),
            Self::Revocation => ("revocation", "revoke"),
            Self::Erasure => ("erasure", "erase"),
            Self::Name => ("name", "name"),
            Self::Note => ("note", "note"),
            Self::Blob => ("blob", "blob"),
        }
    }

    /// Returns the word that stands in bytes.
    pub const fn word(self) -> &'static str {
        self.words().0
    }

    /// Returns the prefix of ids, as in `run:7f3a19`.
    pub const fn prefix(self) -> &'static str {
        self.words().1
    }

    /// Finds a kind by its word in bytes.
    ///
    /// Every claim and link of the log asks this, so it is a decision over bytes and not a search.
    pub const fn from_word(word: &str) -> Option<Self> {
        let kind = match word.as_bytes() {
            b"genesis" => Self::Genesis,
            b"holder" => Self::Holder,
            b"key" => Self::Key,
            b"format" => Self::Format,
            b"config" => Self::Config,
            b"dataset" => Self::Dataset,
            b"tree" => Self::Tree,
            b"sums" => Self::Sums,
            b"tensors" => Self::Tensors,
            b"code" => Self::Code,
            b"environment" => Self::Environment,
            b"model" => Self::Model,
            b"contract" => Self::Contract,
            b"policy" => Self::Policy,
            b"private" => Self::Private,
            b"about" => Self::About,
            b"plan" => Self::Plan,
            b"start" => Self::Start,
            b"end" => Self::End,
            b"checkpoint" => Self::Checkpoint,
            b"transform" => Self::Transform,
            b"benchmark" => Self::Benchmark,
            b"eval" => Self::Eval,
            b"paper-claim" => Self::PaperClaim,
            b"observation" => Self::Observation,
            b"import" => Self::Import,
            b"verdict" => Self::Verdict,
            b"approval" => Self::Approval,
            b"promotion" => Self::Promotion,
            b"deployment" => Self::Deployment,
            b"channel" => Self::Channel,
            b"revocation" => Self::Revocation,
            b"erasure" => Self::Erasure,
            b"name" => Self::Name,
            b"note" => Self::Note,
            b"blob" => Self::Blob,
            _ => return None,
        };
        Some(kind)
    }

    /// Finds a kind by its prefix of ids.
    pub fn from_prefix(prefix: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.prefix() == prefix)
    }

    /// Returns the kind with this number in a State file.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Returns who may state this kind.
    pub const fn stated_by(self) -> StatedBy {
        match self {
            Self::Genesis => StatedBy::FirstStatement,
            Self::Key => StatedBy::KeyRules,
            Self::Format | Self::Channel | Self::Erasure | Self::Name => StatedBy::Roles(&[Owner]),
            Self::Dataset | Self::Model | Self::Eval => StatedBy::Roles(&[Author, Evaluator]),
            Self::Plan | Self::Start | Self::Transform | Self::PaperClaim => StatedBy::Roles(&[Author]),
            Self::End => StatedBy::RunOrOwner,
            Self::Checkpoint => StatedBy::AuthorOfRun,
            Self::Observation => StatedBy::Roles(&[Author, Evaluator, Reviewer]),
            Self::Import => StatedBy::Roles(&[Author, Evaluator, Owner]),
            Self::Verdict => StatedBy::Roles(&[Evaluator]),
            Self::Approval => StatedBy::Roles(&[Reviewer, Approver]),
            Self::Promotion | Self::Deployment => StatedBy::Roles(&[Approver]),
            Self::Revocation => StatedBy::RevocationRules,
            Self::Note => StatedBy::Roles(&[Owner, Author, Evaluator, Reviewer, Approver]),
            _ => StatedBy::Nobody,
        }
    }

    /// Returns the links of this kind's claims, beside [`COMMON_LINKS`]; for objects that are never claimed,
    /// the references in their bytes.
    pub const fn links(self) -> &'static [LinkRule] {
        match self {
            Self::Key => const { &[link("holder", &[Kind::Holder], One)] },
            Self::Config => const { &[link("frozen", BLOB, One), link("source", BLOB, Many)] },
            Self::Code => const { &[link("diff", BLOB, Optional)] },
            Self::Environment => const { &[link("lock", BLOB, Optional), link("installed", BLOB, Optional)] },
            Self::Contract | Self::Policy => const { &[link("text", BLOB, One)] },
            Self::Benchmark => const { &[link("definition", BLOB, Optional)] },
            Self::Dataset => {
                const {
                    &[
                        link("root", CONTENT, One),
                        beside("sums", SUMS, Optional),
                        beside("from", &[Kind::Dataset], Many),
                    ]
                }
            }
            Self::Model => const { &[link("root", CONTENT, One), beside("sums", SUMS, Optional)] },
            Self::Plan => {
                const {
                    &[
                        link("config", &[Kind::Config], Optional),
                        link("code", &[Kind::Code], Optional),
                        link("environment", &[Kind::Environment], Optional),
                        link("data", &[Kind::Dataset], Many),
                        claimed("base", BASE, CK, Many),
                        link("contract", &[Kind::Contract], Many),
                        link("policy", POLICY, Many),
                        link("spec", BLOB, Optional),
                        beside("manifest", BLOB, One),
                        beside("untracked", TREE, Optional),
                        LinkRule {
                            role: "from",
                            kinds: PLAN,
                            claimed: PLAN,
                            count: Optional,
                            claim_only: true,
                        },
                    ]
                }
            }
            Self::Start => {
                const {
                    &[
                        claimed("plan", PLAN, PLAN, One),
                        link("environment", &[Kind::Environment], Optional),
                        claimed("lost", START, START, Many),
                    ]
                }
            }
            Self::End => const { &[claimed("start", START, START, One)] },
            Self::Checkpoint => {
                const {
                    &[
                        claimed("start", START, START, Optional),
                        link("full", TREE, One),
                        link("weights", TREE, One),
                        link("tensors", &[Kind::Tensors], Optional),
                        claimed("parent", CK, CK, Optional),
                        link("files", BLOB, Optional),
                        beside("sums", SUMS, Optional),
                    ]
                }
            }
            Self::Transform => const { &[claimed("from", BASE, CK, AtLeastOne), claimed("to", CK, CK, One)] },
            Self::Eval => {
                const {
                    &[
                        link("subject", TREE, One),
                        claimed("of", CK, CK, Optional),
                        link("benchmark", &[Kind::Benchmark], One),
                        link("result", BLOB, Many),
                        claimed("start", START, START, Optional),
                    ]
                }
            }
            Self::PaperClaim => const { &[claimed("from", EVAL, EVAL, AtLeastOne)] },
            Self::Observation => const { &[claimed("subject", CLAIMS, CLAIMS, One)] },
            Self::Import => const { &[link("document", BLOB, One), link("subject", &[], Many)] },
            Self::Verdict => {
                const {
                    &[
                        claimed("subject", CK, CK, One),
                        link("policy", POLICY, One),
                        link("facts", BLOB, One),
                        claimed("baseline", CK, CK, Optional),
                    ]
                }
            }
            Self::Approval => {
                const { &[claimed("subject", CLAIMS, CLAIMS, One), claimed("verdict", VERDICT, VERDICT, Optional)] }
            }
            Self::Promotion => {
                const { &[claimed("subject", CK, CK, One), claimed("verdict", VERDICT, VERDICT, Optional)] }
            }
            Self::Deployment => {
                const { &[claimed("subject", CK, CK, Optional), claimed("verdict", VERDICT, VERDICT, Optional)] }
            }
            Self::Channel => const { &[link("policy", POLICY, One)] },
            Self::Name => const { &[claimed("to", CLAIMS, CLAIMS, Optional)] },
            Self::Note => const { &[link("subject", &[], One)] },
            _ => &[],
        }
    }

    /// Finds the rule of one link role.
    pub fn link_rule(self, role: &str) -> Option<&'static LinkRule> {
        self.links().iter().chain(COMMON_LINKS).find(|rule| rule.role == role)
    }

    /// Returns whether a claim of this kind compares and swaps with `prev`: decisions do, acts never.
    pub const fn takes_prev(self) -> bool {
        matches!(
            self,
            Self::Key | Self::Format | Self::Promotion | Self::Deployment | Self::Channel | Self::Name
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Self::from_word(&word)
            .ok_or_else(|| D::Error::custom(format!("`{word}` is not a kind of this version")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_prefixes_and_numbers_name_one_kind_each() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_word(kind.word()), Some(kind));
            assert_eq!(Kind::from_prefix(kind.prefix()), Some(kind));
            assert_eq!(Kind::from_number(kind as u8), Some(kind));
        }
        assert_eq!(Kind::from_number(36), None);
    }

    #[test]
    fn only_decisions_compare_and_swap() {
        for act in
            [Kind::Plan, Kind::Start, Kind::End, Kind::Checkpoint, Kind::Eval, Kind::Dataset, Kind::Note]
        {
            assert!(!act.takes_prev(), "{act} has happened and cannot lose a race");
        }
    }
}
