//! Records of trust: genesis, holders, their keys, what is revoked, and the number of the fold's rules.

use serde::{Deserialize, Serialize};

use crate::id::{HolderId, KeyId, LedgerId, TreeHash};

use super::{Facts, Fixed, Kind, Link, Nonce, Record, Role, Target, TypedId};

/// Opens a ledger.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// Keeps two ledgers of one key apart.
    pub nonce: Nonce,
    /// Number of the fold's rules, 1 in this version.
    pub rules: u32,
    /// The ledger, size and root that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(LedgerId, u64, TreeHash)>,
}

impl Record for Genesis {
    const KIND: Kind = Kind::Genesis;

    fn links(&self) -> Vec<Link> {
        Vec::new()
    }

    fn facts(&self) -> Facts {
        Facts::Genesis { nonce: self.nonce.0, rules: self.rules, parent: self.parent }
    }
}

/// A person or machine. Left out when a chain is anonymised; nothing else names anybody.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// Display name.
    pub name: String,
}

impl Record for Holder {
    const KIND: Kind = Kind::Holder;

    fn links(&self) -> Vec<Link> {
        Vec::new()
    }
}

/// Binds a key to a holder with roles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Ed25519 public key.
    pub key: Fixed<32>,
    /// The holder's display record.
    pub holder: TypedId,
    /// Thumbprint of the holder's first key, which is the holder's id.
    pub first: KeyId,
    /// Role words, sorted; empty means that the key is dead from here on.
    pub roles: Vec<String>,
    /// Proof of possession, in the key's first claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Fixed<64>>,
}

impl Record for Key {
    const KIND: Kind = Kind::Key;

    fn links(&self) -> Vec<Link> {
        vec![Link::new("holder", self.holder)]
    }

    fn facts(&self) -> Facts {
        Facts::Key {
            key: self.key.0,
            holder: HolderId::of_first_key(self.first),
            roles: self.roles.iter().filter_map(|word| Role::from_word(word)).collect(),
            proof: self.proof.map(|proof| proof.0),
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        let roles: Option<Vec<Role>> = self.roles.iter().map(|word| Role::from_word(word)).collect();
        match roles {
            Some(roles) if super::ascending(&roles, |role| *role) => Ok(()),
            Some(_) => Err("roles are not in ascending order"),
            None => Err("a role is not one of this version"),
        }
    }
}

/// Says that something is not to be relied on. Why stands in the `about` beside the claim.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// Keeps two equal revocations two.
    pub nonce: Nonce,
    /// What.
    pub target: Target,
    /// The first index from which on it is not to be relied on; absent means all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}

impl Record for Revocation {
    const KIND: Kind = Kind::Revocation;

    fn links(&self) -> Vec<Link> {
        Vec::new()
    }

    fn facts(&self) -> Facts {
        Facts::Revocation { target: self.target, since: self.since }
    }
}

/// Raises the number of the fold's rules.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Format {
    /// The number from this claim on.
    pub rules: u32,
}

impl Record for Format {
    const KIND: Kind = Kind::Format;

    fn links(&self) -> Vec<Link> {
        Vec::new()
    }

    fn facts(&self) -> Facts {
        Facts::Format { rules: self.rules }
    }
}
