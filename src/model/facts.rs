//! Facts: the closed map in each claim that holds everything the fold reads, and nothing else.
//!
//! Each kind has one shape. A key that this version does not know makes the claim *unknown*; a known key
//! with a value of the wrong shape makes it malformed. Records stand in the other files of this folder.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Error as _, SeqAccess};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::codec::{self, Reader, Writer};
use crate::id::{ClaimRef, HolderId, KeyId, LedgerId, ObjectId, StatementId, TreeHash};

use super::{Kind, TypedId};

/// Why facts cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key from newer rules.
    #[error("`{0}` is not a fact of this version")]
    Unknown(String),
    /// A value of the wrong shape.
    #[error("fact `{0}` is malformed")]
    Malformed(&'static str),
    /// A required key is absent.
    #[error("fact `{0}` is absent")]
    Absent(&'static str),
    /// Not CBOR in its one form.
    #[error("the facts are not encoded in the one form")]
    Encoding(#[from] codec::Error),
}

/// What a key may do. None implies another; `Log` and `Recovery` stand alone on a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Role {
    /// May open decisions to evaluators and approvers.
    Approver,
    /// States runs and what came out of them.
    Author,
    /// States evaluations and verdicts.
    Evaluator,
    /// Orders statements; gives no facts.
    Log,
    /// Binds keys to holders and opens channels.
    Owner,
    /// Adds and revokes owners, nothing else; introduced by genesis only.
    Recovery,
    /// Approves.
    Reviewer,
}

impl Role {
    /// All roles in the order of their words.
    pub const ALL: [Self; 7] = [
        Self::Approver,
        Self::Author,
        Self::Evaluator,
        Self::Log,
        Self::Owner,
        Self::Recovery,
        Self::Reviewer,
    ];

    /// Returns the role's word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approver => "approver",
            Self::Author => "author",
            Self::Evaluator => "evaluator",
            Self::Log => "log",
            Self::Owner => "owner",
            Self::Recovery => "recovery",
            Self::Reviewer => "reviewer",
        }
    }

    /// Finds a role by its word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A ledger-wide name: 1 to 128 bytes of `[a-z0-9][a-z0-9._/-]*`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(String);

impl Name {
    /// Parses a name.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let bytes = text.as_bytes();
        let first = bytes.first().copied().is_some_and(plain);
        let rest = bytes.iter().all(|c| plain(*c) || matches!(c, b'.' | b'_' | b'/' | b'-'));
        (first && rest && bytes.len() <= 128).then(|| Self(text.to_owned()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $name { $($(#[$each])* $variant),+ }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the word in bytes and in answers.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Finds a value by its word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// How an attempt ended.
    Status {
        /// The command ended with code 0.
        Completed = "completed",
        /// The command ended with another code.
        Failed = "failed",
        /// A person stopped it.
        Cancelled = "cancelled",
        /// The scheduler took the machine back.
        Preempted = "preempted",
    }
}
words! {
    /// What a gate said.
    Outcome {
        /// Every rule holds.
        Open = "open",
        /// A rule does not hold or could not be decided.
        Closed = "closed",
    }
}
words! {
    /// A vote.
    Decision {
        /// For.
        Approve = "approve",
        /// Against.
        Reject = "reject",
    }
}
words! {
    /// What a promotion does.
    PromotionAction {
        /// The subject enters the stage.
        Enter = "enter",
        /// The subject is turned away.
        Reject = "reject",
    }
}
words! {
    /// What a deployment does.
    DeploymentAction {
        /// The target serves the subject.
        On = "on",
        /// The target serves nothing.
        Off = "off",
        /// The target serves an earlier subject again.
        Rollback = "rollback",
    }
}
words! {
    /// What an owner does with a name.
    NameAction {
        /// Gives it to what `to` links.
        Assign = "assign",
        /// Ends its use.
        Retire = "retire",
        /// Keeps it for owners.
        Reserve = "reserve",
    }
}

/// What a revocation marks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// One claim.
    Claim(ClaimRef),
    /// An object, whoever claimed it.
    Object(TypedId),
    /// A key and what it signed.
    Key(KeyId),
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Claim(claim) => ("claim", claim.statement, claim.position).serialize(serializer),
            Self::Object(object) => ("object", object.kind, object.id).serialize(serializer),
            Self::Key(key) => ("key", key).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Target;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a claim, an object or a key")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Target, A::Error> {
                fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(items: &mut A) -> Result<T, A::Error> {
                    items.next_element()?.ok_or_else(|| A::Error::custom("the target is cut short"))
                }
                let form: String = next(&mut items)?;
                Ok(match form.as_str() {
                    "claim" => {
                        let statement = next(&mut items)?;
                        Target::Claim(ClaimRef { statement, position: next(&mut items)? })
                    }
                    "object" => {
                        let kind = next(&mut items)?;
                        Target::Object(TypedId::new(kind, next(&mut items)?))
                    }
                    "key" => Target::Key(next(&mut items)?),
                    _ => return Err(A::Error::custom("the target is of no form of this version")),
                })
            }
        }
        deserializer.deserialize_seq(Visitor)
    }
}

/// The facts of one claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Facts {
    /// Opens a ledger.
    Genesis {
        /// Makes two ledgers of one key differ.
        nonce: [u8; 16],
        /// Number of the fold's rules.
        rules: u32,
        /// The ledger, size and root that this one continues.
        parent: Option<(LedgerId, u64, TreeHash)>,
    },
    /// Binds a key to a holder with roles; no roles means that the key is dead from here on.
    Key {
        /// Ed25519 public key.
        key: [u8; 32],
        /// Its holder.
        holder: HolderId,
        /// What it may do.
        roles: BTreeSet<Role>,
        /// Signature that proves possession; on the key's first claim.
        proof: Option<[u8; 64]>,
    },
    /// Raises the number of the fold's rules.
    Format {
        /// The number from here on.
        rules: u32,
    },
    /// A plan, dataset, model or checkpoint, with a name or without.
    Named {
        /// The name that is asked for.
        name: Option<Name>,
    },
    /// Ends an attempt.
    End {
        /// How.
        status: Status,
    },
    /// A gate's answer.
    Verdict {
        /// The answer.
        outcome: Outcome,
        /// The log size at which the facts were read.
        position: u64,
    },
    /// A vote.
    Approval {
        /// Which.
        decision: Decision,
    },
    /// Moves a channel.
    Promotion {
        /// The channel.
        channel: Name,
        /// The stage.
        stage: Name,
        /// What happens.
        action: PromotionAction,
    },
    /// Moves a deployment target.
    Deployment {
        /// The target.
        target: Name,
        /// What happens.
        action: DeploymentAction,
    },
    /// Opens a channel or changes its policy.
    Channel {
        /// The channel.
        channel: Name,
    },
    /// Marks something as not to be relied on.
    Revocation {
        /// What.
        target: Target,
        /// From which index on; absent means all.
        since: Option<u64>,
    },
    /// Allows objects to be absent.
    Erasure {
        /// Which.
        objects: Vec<ObjectId>,
    },
    /// Moves a name.
    NameMove {
        /// The kind that the name is of.
        kind: Kind,
        /// The name.
        name: Name,
        /// What happens.
        action: NameAction,
    },
    /// No facts.
    None,
}

impl Facts {
    /// Encodes the facts as the map of a claim.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        match self {
            Self::Genesis { nonce, rules, parent } => {
                w.map(2 + usize::from(parent.is_some()));
                w.text("nonce").byte_string(nonce);
                w.text("rules").uint(u64::from(*rules));
                if let Some((ledger, size, root)) = parent {
                    w.text("parent").array(3).byte_string(ledger.as_bytes()).uint(*size);
                    w.byte_string(root.as_bytes());
                }
            }
            Self::Key { key, holder, roles, proof } => {
                w.map(3 + usize::from(proof.is_some()));
                w.text("key").byte_string(key);
                if let Some(proof) = proof {
                    w.text("proof").byte_string(proof);
                }
                w.text("roles").array(roles.len());
                for role in roles {
                    w.text(role.word());
                }
                w.text("holder").byte_string(holder.first_key().as_bytes());
            }
            Self::Format { rules } => {
                w.map(1).text("rules").uint(u64::from(*rules));
            }
            Self::Named { name: Some(name) } => {
                w.map(1).text("name").text(name.as_str());
            }
            Self::End { status } => {
                w.map(1).text("status").text(status.word());
            }
            Self::Verdict { outcome, position } => {
                w.map(2).text("outcome").text(outcome.word()).text("position").uint(*position);
            }
            Self::Approval { decision } => {
                w.map(1).text("decision").text(decision.word());
            }
            Self::Promotion { channel, stage, action } => {
                w.map(3).text("stage").text(stage.as_str()).text("action").text(action.word());
                w.text("channel").text(channel.as_str());
            }
            Self::Deployment { target, action } => {
                w.map(2).text("action").text(action.word()).text("target").text(target.as_str());
            }
            Self::Channel { channel } => {
                w.map(1).text("channel").text(channel.as_str());
            }
            Self::Revocation { target, since } => {
                w.map(1 + usize::from(since.is_some()));
                if let Some(since) = since {
                    w.text("since").uint(*since);
                }
                w.text("target");
                match target {
                    Target::Claim(claim) => {
                        w.array(3).text("claim").byte_string(claim.statement.as_bytes());
                        w.uint(u64::from(claim.position));
                    }
                    Target::Object(object) => {
                        w.array(3).text("object").text(object.kind.word()).byte_string(object.id.as_bytes());
                    }
                    Target::Key(key) => {
                        w.array(2).text("key").byte_string(key.as_bytes());
                    }
                }
            }
            Self::Erasure { objects } => {
                w.map(1).text("objects").array(objects.len());
                for object in objects {
                    w.byte_string(object.as_bytes());
                }
            }
            Self::NameMove { kind, name, action } => {
                w.map(3).text("kind").text(kind.word()).text("name").text(name.as_str());
                w.text("action").text(action.word());
            }
            Self::Named { name: None } | Self::None => {
                w.map(0);
            }
        }
        w.finish()
    }

    /// Reads the facts of a claim of `kind`.
    pub fn decode(kind: Kind, bytes: &[u8]) -> Result<Self, Error> {
        let fields = Fields::read(kind, bytes)?;
        let facts = match kind {
            Kind::Genesis => Self::Genesis {
                nonce: fields.need("nonce", fields.nonce)?,
                rules: fields.need("rules", fields.rules)?,
                parent: fields.parent,
            },
            Kind::Key => Self::Key {
                key: fields.need("key", fields.key)?,
                holder: HolderId::of_first_key(KeyId::from_bytes(fields.need("holder", fields.holder)?)),
                roles: fields.need("roles", fields.roles.clone())?,
                proof: fields.proof,
            },
            Kind::Format => Self::Format { rules: fields.need("rules", fields.rules)? },
            Kind::Plan | Kind::Dataset | Kind::Model | Kind::Checkpoint => {
                Self::Named { name: fields.name.map(|text| name("name", text)).transpose()? }
            }
            Kind::End => Self::End { status: word("status", fields.status, Status::from_word)? },
            Kind::Verdict => Self::Verdict {
                outcome: word("outcome", fields.outcome, Outcome::from_word)?,
                position: fields.need("position", fields.position)?,
            },
            Kind::Approval => {
                Self::Approval { decision: word("decision", fields.decision, Decision::from_word)? }
            }
            Kind::Promotion => Self::Promotion {
                channel: name("channel", fields.need("channel", fields.channel)?)?,
                stage: name("stage", fields.need("stage", fields.stage)?)?,
                action: word("action", fields.action, PromotionAction::from_word)?,
            },
            Kind::Deployment => Self::Deployment {
                target: match fields.target {
                    Some(RawTarget::Name(text)) => name("target", text)?,
                    _ => return Err(Error::Malformed("target")),
                },
                action: word("action", fields.action, DeploymentAction::from_word)?,
            },
            Kind::Channel => {
                Self::Channel { channel: name("channel", fields.need("channel", fields.channel)?)? }
            }
            Kind::Revocation => Self::Revocation {
                target: match fields.target {
                    Some(RawTarget::Target(target)) => target,
                    _ => return Err(Error::Malformed("target")),
                },
                since: fields.since,
            },
            Kind::Erasure => Self::Erasure { objects: fields.need("objects", fields.objects.clone())? },
            Kind::Name => Self::NameMove {
                kind: known_kind(fields.need("kind", fields.kind)?)?,
                name: name("name", fields.need("name", fields.name)?)?,
                action: word("action", fields.action, NameAction::from_word)?,
            },
            _ => Self::None,
        };
        Ok(facts)
    }
}

fn name(fact: &'static str, text: &str) -> Result<Name, Error> {
    Name::parse(text).ok_or(Error::Malformed(fact))
}

fn known_kind(word: &str) -> Result<Kind, Error> {
    Kind::from_word(word).ok_or_else(|| Error::Unknown(format!("kind {word}")))
}

fn word<T>(fact: &'static str, text: Option<&str>, parse: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
    parse(text.ok_or(Error::Absent(fact))?).ok_or(Error::Malformed(fact))
}

#[derive(Clone, Copy)]
enum RawTarget<'a> {
    Name(&'a str),
    Target(Target),
}

/// Every fact of every kind, as read; `read` admits only those of the kind at hand.
#[derive(Default)]
struct Fields<'a> {
    nonce: Option<[u8; 16]>,
    rules: Option<u32>,
    parent: Option<(LedgerId, u64, TreeHash)>,
    key: Option<[u8; 32]>,
    holder: Option<[u8; 32]>,
    roles: Option<BTreeSet<Role>>,
    proof: Option<[u8; 64]>,
    name: Option<&'a str>,
    status: Option<&'a str>,
    outcome: Option<&'a str>,
    position: Option<u64>,
    decision: Option<&'a str>,
    channel: Option<&'a str>,
    stage: Option<&'a str>,
    action: Option<&'a str>,
    target: Option<RawTarget<'a>>,
    since: Option<u64>,
    objects: Option<Vec<ObjectId>>,
    kind: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn read(kind: Kind, bytes: &'a [u8]) -> Result<Self, Error> {
        let mut fields = Self::default();
        let mut r = Reader::new(bytes);
        let mut map = r.map()?;
        while let Some(fact) = r.key(&mut map)? {
            match (kind, fact) {
                (Kind::Genesis, "nonce") => fields.nonce = Some(r.array_of()?),
                (Kind::Genesis | Kind::Format, "rules") => {
                    fields.rules = Some(u32::try_from(r.uint()?).map_err(|_| Error::Malformed("rules"))?);
                }
                (Kind::Genesis, "parent") => {
                    r.array_len(3, "a ledger, size and root")?;
                    let ledger = LedgerId::from_bytes(r.array_of()?);
                    fields.parent = Some((ledger, r.uint()?, TreeHash::from_bytes(r.array_of()?)));
                }
                (Kind::Key, "key") => fields.key = Some(r.array_of()?),
                (Kind::Key, "holder") => fields.holder = Some(r.array_of()?),
                (Kind::Key, "proof") => fields.proof = Some(r.array_of()?),
                (Kind::Key, "roles") => fields.roles = Some(read_roles(&mut r)?),
                (Kind::Plan | Kind::Dataset | Kind::Model | Kind::Checkpoint | Kind::Name, "name") => {
                    fields.name = Some(r.text()?);
                }
                (Kind::End, "status") => fields.status = Some(r.text()?),
                (Kind::Verdict, "outcome") => fields.outcome = Some(r.text()?),
                (Kind::Verdict, "position") => fields.position = Some(r.uint()?),
                (Kind::Approval, "decision") => fields.decision = Some(r.text()?),
                (Kind::Promotion | Kind::Channel, "channel") => fields.channel = Some(r.text()?),
                (Kind::Promotion, "stage") => fields.stage = Some(r.text()?),
                (Kind::Promotion | Kind::Deployment | Kind::Name, "action") => {
                    fields.action = Some(r.text()?);
                }
                (Kind::Deployment, "target") => fields.target = Some(RawTarget::Name(r.text()?)),
                (Kind::Revocation, "target") => fields.target = Some(RawTarget::Target(read_target(&mut r)?)),
                (Kind::Revocation, "since") => fields.since = Some(r.uint()?),
                (Kind::Erasure, "objects") => {
                    let count = r.array()?;
                    let ids = (0..count).map(|_| r.array_of().map(ObjectId::from_bytes));
                    fields.objects = Some(ids.collect::<Result<_, _>>()?);
                }
                (Kind::Name, "kind") => fields.kind = Some(r.text()?),
                (_, other) => return Err(Error::Unknown(other.to_owned())),
            }
        }
        r.end()?;
        Ok(fields)
    }

    #[expect(clippy::unused_self, reason = "reads as `fields.need(..)` where a field is required")]
    fn need<T>(&self, fact: &'static str, value: Option<T>) -> Result<T, Error> {
        value.ok_or(Error::Absent(fact))
    }
}

fn read_roles(r: &mut Reader<'_>) -> Result<BTreeSet<Role>, Error> {
    let count = r.array()?;
    let mut roles = BTreeSet::new();
    for _ in 0..count {
        let word = r.text()?;
        let role = Role::from_word(word).ok_or_else(|| Error::Unknown(format!("role {word}")))?;
        if roles.last().is_some_and(|last| *last >= role) {
            return Err(Error::Malformed("roles"));
        }
        roles.insert(role);
    }
    Ok(roles)
}

fn read_target(r: &mut Reader<'_>) -> Result<Target, Error> {
    let len = r.array()?;
    match (r.text()?, len) {
        ("claim", 3) => {
            let statement = StatementId::from_bytes(r.array_of()?);
            let position = u16::try_from(r.uint()?).map_err(|_| Error::Malformed("target"))?;
            Ok(Target::Claim(ClaimRef { statement, position }))
        }
        ("object", 3) => {
            let kind = known_kind(r.text()?)?;
            Ok(Target::Object(TypedId { kind, id: ObjectId::from_bytes(r.array_of()?) }))
        }
        ("key", 2) => Ok(Target::Key(KeyId::from_bytes(r.array_of()?))),
        (other, _) => Err(Error::Unknown(format!("target {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<(Kind, Facts)> {
        let name = |text: &str| Name::parse(text).unwrap();
        let holder = HolderId::of_first_key(KeyId::from_bytes([7; 32]));
        let claim = ClaimRef { statement: StatementId::from_bytes([1; 32]), position: 2 };
        let object = TypedId { kind: Kind::Eval, id: ObjectId::from_bytes([2; 32]) };
        vec![
            (Kind::Genesis, Facts::Genesis { nonce: [1; 16], rules: 1, parent: None }),
            (
                Kind::Genesis,
                Facts::Genesis {
                    nonce: [1; 16],
                    rules: 1,
                    parent: Some((LedgerId::from_bytes([3; 32]), 9, TreeHash::from_bytes([4; 32]))),
                },
            ),
            (
                Kind::Key,
                Facts::Key {
                    key: [5; 32],
                    holder,
                    roles: [Role::Owner, Role::Author].into(),
                    proof: Some([6; 64]),
                },
            ),
            (Kind::Key, Facts::Key { key: [5; 32], holder, roles: BTreeSet::new(), proof: None }),
            (Kind::Format, Facts::Format { rules: 2 }),
            (Kind::Plan, Facts::Named { name: None }),
            (Kind::Dataset, Facts::Named { name: Some(name("train")) }),
            (Kind::End, Facts::End { status: Status::Preempted }),
            (Kind::Verdict, Facts::Verdict { outcome: Outcome::Open, position: 300 }),
            (Kind::Approval, Facts::Approval { decision: Decision::Reject }),
            (
                Kind::Promotion,
                Facts::Promotion {
                    channel: name("prod"),
                    stage: name("canary"),
                    action: PromotionAction::Enter,
                },
            ),
            (Kind::Deployment, Facts::Deployment { target: name("eu"), action: DeploymentAction::Off }),
            (Kind::Channel, Facts::Channel { channel: name("prod") }),
            (Kind::Revocation, Facts::Revocation { target: Target::Claim(claim), since: None }),
            (Kind::Revocation, Facts::Revocation { target: Target::Object(object), since: None }),
            (
                Kind::Revocation,
                Facts::Revocation { target: Target::Key(KeyId::from_bytes([8; 32])), since: Some(4) },
            ),
            (Kind::Erasure, Facts::Erasure { objects: vec![ObjectId::from_bytes([9; 32])] }),
            (
                Kind::Name,
                Facts::NameMove { kind: Kind::Model, name: name("m/1"), action: NameAction::Retire },
            ),
            (Kind::Start, Facts::None),
        ]
    }

    #[test]
    fn facts_are_read_as_they_were_written_in_the_one_form() {
        for (kind, facts) in samples() {
            let bytes = facts.encode();
            codec::check(&bytes).unwrap();
            assert_eq!(Facts::decode(kind, &bytes).unwrap(), facts);
        }
    }

    #[test]
    fn a_newer_fact_is_unknown_and_a_wrong_one_malformed() {
        let newer = codec::encode(&std::collections::BTreeMap::from([("mood", "good")])).unwrap();
        assert!(matches!(Facts::decode(Kind::Start, &newer), Err(Error::Unknown(_))));
        let bad = codec::encode(&std::collections::BTreeMap::from([("status", "lost")])).unwrap();
        assert!(matches!(Facts::decode(Kind::End, &bad), Err(Error::Malformed("status"))));
        assert!(matches!(Facts::decode(Kind::End, &[0xa0]), Err(Error::Absent("status"))));
        // A fact of another kind is not one of this kind.
        assert!(matches!(Facts::decode(Kind::Plan, &bad), Err(Error::Unknown(_))));
    }

    #[test]
    fn names_have_one_spelling() {
        for good in ["a", "0", "train", "prod/eu-1.b_2"] {
            assert!(Name::parse(good).is_some(), "{good}");
        }
        for bad in ["", "A", "-a", "a b", "a@1", "\u{e4}", "a:b", &"a".repeat(129)] {
            assert!(Name::parse(bad).is_none(), "{bad}");
        }
    }
}
