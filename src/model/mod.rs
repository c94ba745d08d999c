//! Records as plain data: what each kind says, its one encoding, and its projection to links and facts.
//!
//! A record is an object of a known kind: a CBOR map that states its `kind` and version `v`. [`Record`] is the
//! one projection from a record to the links and facts of its claim, used by whoever writes a claim and by
//! whoever checks one. Nothing here reads a disk or a clock.

pub mod content;
mod evidence;
mod facts;
mod inputs;
mod kind;
mod run;
mod trust;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::codec::{self, Value};
use crate::id::{self, ObjectId};

pub use evidence::{
    Adapter, Benchmark, Better, Binding, Checkpoint, CheckpointState, Claimed, Eval, Harness, Import, Metric,
    Note, Reporter, Task,
};
pub use facts::{
    Decision, DeploymentAction, Error as FactsError, Facts, Name, NameAction, Outcome, PromotionAction, Role,
    Status, Target,
};
pub use inputs::{
    About, Code, Config, Container, Contract, Dataset, Dirt, Environment, Hardware, Installed, Interpreter,
    LockFile, Model, Policy, Private, Submodule,
};
pub use kind::{COMMON_LINKS, Count, Kind, LinkRule, StatedBy};
pub use run::{End, Plan, Start, StartCheck};
pub use trust::{Format, Genesis, Holder, Key, Revocation};

/// Version of every record in this format.
pub const VERSION: i128 = 1;

/// Why bytes are not the record that was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not CBOR in its one form, or other fields.
    #[error("not a record in its one form")]
    Encoding(#[from] codec::Error),
    /// The bytes state another kind.
    #[error("the record says that it is a `{found}`, not a `{expected}`")]
    Kind {
        /// The kind that was referred to.
        expected: Kind,
        /// The word in the bytes.
        found: String,
    },
    /// A value that the record may not have, though its fields are the right ones.
    #[error("{0}")]
    Form(&'static str),
    /// The bytes state another version.
    #[error("the record is of version {found}; this program knows {VERSION}")]
    Version {
        /// The version in the bytes.
        found: String,
    },
}

/// A reference: the kind that the referred bytes must state, and their id. Text is `<prefix>:<64 hex>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TypedId {
    /// The kind.
    pub kind: Kind,
    /// The object.
    pub id: ObjectId,
}

impl TypedId {
    /// Makes a reference.
    pub const fn new(kind: Kind, id: ObjectId) -> Self {
        Self { kind, id }
    }

    /// Returns prefix and the first eight hex digits, as people read ids.
    pub fn short(&self) -> String {
        format!("{}:{}", self.kind.prefix(), &self.id.to_hex()[..8])
    }
}

impl fmt::Display for TypedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.prefix(), self.id)
    }
}

impl Serialize for TypedId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.kind, self.id).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TypedId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <(Kind, ObjectId)>::deserialize(deserializer).map(|(kind, id)| Self { kind, id })
    }
}

/// A byte string of any length.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a byte string")
            }
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

/// A byte string of exactly `N` bytes: nonces, salts, keys and signatures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fixed<const N: usize>(pub [u8; N]);

/// 16 random bytes that keep two equal acts two.
pub type Nonce = Fixed<16>;

impl<const N: usize> Serialize for Fixed<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Fixed<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        id::deserialize_array(deserializer).map(Self)
    }
}

/// One link: a fixed role and what stands in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Link {
    /// The role's word, one of those in the table of kinds.
    pub role: &'static str,
    /// What is linked.
    pub target: TypedId,
}

impl Link {
    /// Makes a link.
    pub const fn new(role: &'static str, target: TypedId) -> Self {
        Self { role, target }
    }
}

/// A record of one kind.
pub trait Record: Serialize + DeserializeOwned {
    /// The kind that its bytes state.
    const KIND: Kind;

    /// Returns the links that the record's bytes hold, in any order.
    fn links(&self) -> Vec<Link>;

    /// Returns the facts of the record's claim; a name that stands beside the record is added by the claim.
    fn facts(&self) -> Facts {
        Facts::None
    }

    /// Returns what the types cannot say: words, orders, and fields that exclude each other.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

/// A record's bytes with their id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// The reference to the bytes.
    pub id: TypedId,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Encodes a record with its kind and version.
pub fn encode<R: Record>(record: &R) -> Result<Encoded, Error> {
    record.check().map_err(Error::Form)?;
    let bytes = stated(R::KIND, &codec::encode(record)?)?;
    Ok(Encoded { id: TypedId::new(R::KIND, id::object_id(&bytes)), bytes })
}

/// Puts kind and version beside a record's own fields.
///
/// The bytes are joined: serde's `flatten` would write a map of unknown length, and values are slow to copy.
fn stated(kind: Kind, own: &[u8]) -> Result<Vec<u8>, codec::Error> {
    let beside = codec::encode(&BTreeMap::from([
        ("kind", Value::Text(kind.word().to_owned())),
        ("v", Value::Integer(VERSION)),
    ]))?;
    let entries = codec::entries(&beside)?.into_iter().chain(codec::entries(own)?);
    codec::map_of(entries.map(|(_, entry)| entry).collect())
}

/// Decodes a record of the kind that is expected; the bytes must say the same.
pub fn decode<R: Record>(bytes: &[u8]) -> Result<R, Error> {
    codec::check(bytes)?;
    let mut entries = codec::entries(bytes)?;
    check_stated(R::KIND, &entries)?;
    // The one open map: it may say anything and never changes a decision.
    if let Some(at) = entries.iter().position(|(name, _)| *name == "ext") {
        let (_, (_, value)) = entries.remove(at);
        if codec::Reader::new(value).map().is_err() {
            return Err(Error::Form("`ext` is not a map"));
        }
    }
    let own = entries.iter().filter(|(name, _)| !matches!(*name, "kind" | "v"));
    let record: R = codec::decode(&codec::map_of(own.map(|(_, entry)| *entry).collect())?)?;
    record.check().map_err(Error::Form)?;
    check_links(R::KIND, &record.links())?;
    // A record has one form: `null` for an absent field, say, would give one content two ids.
    if encode(&record)?.bytes != codec::map_of(entries.into_iter().map(|(_, entry)| entry).collect())? {
        return Err(Error::Form("the record is not in its one form"));
    }
    Ok(record)
}

/// Holds the references of a record to the table of kinds.
fn check_links(kind: Kind, links: &[Link]) -> Result<(), Error> {
    let fits = |link: &Link| {
        let rule = kind.link_rule(link.role);
        rule.is_some_and(|rule| rule.kinds.is_empty() || rule.kinds.contains(&link.target.kind))
    };
    if links.iter().all(fits) {
        Ok(())
    } else {
        Err(Error::Form("a reference is of a kind that may not stand there"))
    }
}

/// Whether a list is strictly ascending by a key, as lists without an order of their own are kept.
fn ascending<T, K: Ord>(list: &[T], key: impl Fn(&T) -> K) -> bool {
    list.windows(2).all(|pair| key(&pair[0]) < key(&pair[1]))
}

fn check_stated(expected: Kind, entries: &[(&str, codec::Entry<'_>)]) -> Result<(), Error> {
    let field = |wanted: &str| {
        let entry = entries.iter().find(|(name, _)| *name == wanted);
        entry.map(|(_, (_, value))| codec::decode::<Value>(value)).transpose()
    };
    match field("kind")? {
        Some(Value::Text(word)) if word == expected.word() => {}
        other => return Err(Error::Kind { expected, found: as_text(other.as_ref()) }),
    }
    match field("v")? {
        Some(Value::Integer(VERSION)) => Ok(()),
        other => Err(Error::Version { found: as_text(other.as_ref()) }),
    }
}

fn as_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Integer(number)) => number.to_string(),
        Some(_) => "something else".to_owned(),
        None => "nothing".to_owned(),
    }
}

/// Returns the kind that an object's bytes state, if they are a map that states one.
pub fn stated_kind(bytes: &[u8]) -> Option<Kind> {
    let fields: BTreeMap<String, Value> = codec::decode(bytes).ok()?;
    match fields.get("kind") {
        Some(Value::Text(word)) => Kind::from_word(word),
        _ => None,
    }
}

/// Returns all fields of a record as a value, for showing it.
pub fn fields(bytes: &[u8]) -> Result<Value, Error> {
    Ok(codec::decode(bytes)?)
}

/// The projection of any record: what a claim about it must repeat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Projection {
    /// Links in the record's bytes, sorted.
    pub links: Vec<Link>,
    /// Facts; for kinds that may be named the name is left out unless the bytes hold it.
    pub facts: Facts,
}

/// Decodes a record of any kind that this version writes, and projects it.
pub fn project(kind: Kind, bytes: &[u8]) -> Result<Projection, Error> {
    fn of<R: Record>(bytes: &[u8]) -> Result<Projection, Error> {
        let record: R = decode(bytes)?;
        let mut links = record.links();
        links.sort_unstable();
        links.dedup();
        Ok(Projection { links, facts: record.facts() })
    }
    match kind {
        Kind::Genesis => of::<Genesis>(bytes),
        Kind::Holder => of::<Holder>(bytes),
        Kind::Key => of::<Key>(bytes),
        Kind::Format => of::<Format>(bytes),
        Kind::Config => of::<Config>(bytes),
        Kind::Dataset => of::<Dataset>(bytes),
        Kind::Model => of::<Model>(bytes),
        Kind::Code => of::<Code>(bytes),
        Kind::Environment => of::<Environment>(bytes),
        Kind::Contract => of::<Contract>(bytes),
        Kind::Policy => of::<Policy>(bytes),
        Kind::Private => of::<Private>(bytes),
        Kind::About => of::<About>(bytes),
        Kind::Plan => of::<Plan>(bytes),
        Kind::Start => of::<Start>(bytes),
        Kind::End => of::<End>(bytes),
        Kind::Checkpoint => of::<Checkpoint>(bytes),
        Kind::Benchmark => of::<Benchmark>(bytes),
        Kind::Eval => of::<Eval>(bytes),
        Kind::Import => of::<Import>(bytes),
        Kind::Revocation => of::<Revocation>(bytes),
        Kind::Note => of::<Note>(bytes),
        _ => {
            codec::check(bytes)?;
            check_stated(kind, &codec::entries(bytes)?)?;
            Ok(Projection { links: Vec::new(), facts: Facts::None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_states_its_kind_and_version_and_nothing_unknown() {
        let holder = Holder { name: "kim".into() };
        let encoded = encode(&holder).unwrap();
        assert_eq!(decode::<Holder>(&encoded.bytes).unwrap(), holder);
        assert!(matches!(decode::<Format>(&encoded.bytes), Err(Error::Kind { .. })));

        let mut fields: BTreeMap<String, Value> = codec::decode(&encoded.bytes).unwrap();
        fields.insert("v".into(), Value::Integer(2));
        assert!(matches!(decode::<Holder>(&codec::encode(&fields).unwrap()), Err(Error::Version { .. })));
        fields.insert("v".into(), Value::Integer(1));
        fields.insert("ext".into(), Value::Map(BTreeMap::new()));
        assert!(decode::<Holder>(&codec::encode(&fields).unwrap()).is_ok(), "the open map is carried");
        fields.insert("mood".into(), Value::Text("good".into()));
        assert!(decode::<Holder>(&codec::encode(&fields).unwrap()).is_err(), "an unknown field is refused");
    }

    #[test]
    fn the_bytes_of_a_record_are_pinned() {
        let encoded = encode(&Holder { name: "kim".into() }).unwrap();
        assert_eq!(id::hex(&encoded.bytes), "a3617601646b696e6466686f6c646572646e616d65636b696d");
    }

    #[test]
    fn a_record_has_one_form() {
        let blob = TypedId::new(Kind::Blob, ObjectId::from_bytes([1; 32]));
        let tree = |byte| TypedId::new(Kind::Tree, ObjectId::from_bytes([byte; 32]));
        let checkpoint = Checkpoint::bare(tree(2), tree(3), "safetensors");
        let encoded = encode(&checkpoint).unwrap();
        assert_eq!(decode::<Checkpoint>(&encoded.bytes).unwrap(), checkpoint);
        let fields: BTreeMap<String, Value> = codec::decode(&encoded.bytes).unwrap();
        let edited = |name: &str, value: Value| {
            let mut fields = fields.clone();
            fields.insert(name.to_owned(), value);
            decode::<Checkpoint>(&codec::encode(&fields).unwrap())
        };
        assert!(matches!(edited("step", Value::Null), Err(Error::Form(_))), "null is not absence");
        assert!(matches!(edited("ext", Value::Null), Err(Error::Form(_))), "`ext` is a map");
        let wrong = codec::decode(&codec::encode(&blob).unwrap()).unwrap();
        assert!(matches!(edited("full", wrong), Err(Error::Form(_))), "a blob is not a tree");
        assert!(edited("state", Value::Text("complete".into())).is_ok());
        assert!(matches!(edited("state", Value::Text("whole".into())), Err(Error::Form(_))), "another word");
        let adapter = |targets: [&str; 2]| {
            let targets = targets.map(|name| Value::Text(name.into())).to_vec();
            let fields = [("method", Value::Text("LORA".into())), ("targets", Value::Array(targets))];
            Value::Map(fields.into_iter().map(|(key, value)| (Value::Text(key.into()), value)).collect())
        };
        assert!(edited("adapter", adapter(["k", "v"])).is_ok());
        assert!(matches!(edited("adapter", adapter(["v", "k"])), Err(Error::Form(_))), "targets are sorted");
    }
}
