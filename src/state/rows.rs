//! Rows of the State's tables: what is kept for a claim, key, name, run, attempt or mark, in fixed width.
//!
//! Numbers are big-endian, so that keys sort as numbers. A claim is kept as the place of its statement and
//! the position in it; whoever needs the statement's id reads it from the log's tiles.

use crate::id::{HolderId, KeyId, ObjectId};
use crate::model::{Kind, Role, Status, TypedId};

/// A claim by its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// Place of the statement: its index in the log, counted on from the logs of the ledger's parents.
    pub index: u32,
    /// Position of the claim in it.
    pub position: u16,
}

impl Place {
    pub(super) fn pack(self) -> [u8; 6] {
        let mut bytes = [0; 6];
        bytes[..4].copy_from_slice(&self.index.to_be_bytes());
        bytes[4..].copy_from_slice(&self.position.to_be_bytes());
        bytes
    }

    pub(super) fn unpack(bytes: &[u8]) -> Self {
        Self { index: number(&bytes[..4]), position: number(&bytes[4..6]) as u16 }
    }
}

pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, byte| (value << 8) | u32::from(*byte))
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(&bytes[..32]);
    digest
}

/// Joins parts into one fixed-width array; the parts must fill it exactly.
pub(super) fn join<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut row = [0; N];
    let mut at = 0;
    for part in parts {
        row[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    debug_assert_eq!(at, N, "a row is filled");
    row
}

pub(super) fn typed_key(id: TypedId) -> [u8; 33] {
    join(&[&[id.kind as u8], id.id.as_bytes()])
}

pub(super) fn typed(key: &[u8]) -> Option<TypedId> {
    Some(TypedId::new(Kind::from_number(key[0])?, ObjectId::from_bytes(digest(&key[1..]))))
}

/// A key as the fold knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRow {
    /// The key.
    pub id: KeyId,
    /// Ed25519 public key.
    pub public: [u8; 32],
    /// Its holder.
    pub holder: HolderId,
    /// Roles now; none means that the key is dead.
    pub roles: Vec<Role>,
    /// Number of the key in order of introduction.
    pub number: u32,
    /// The claim that is current for it.
    pub claim: Place,
    /// Index of the statement that introduced it.
    pub since: u32,
}

impl KeyRow {
    pub(super) fn pack(&self) -> [u8; 79] {
        let roles = self.roles.iter().fold(0u8, |bits, role| bits | 1 << *role as u8);
        join(&[
            &self.public,
            self.holder.first_key().as_bytes(),
            &[roles],
            &self.number.to_be_bytes(),
            &self.claim.pack(),
            &self.since.to_be_bytes(),
        ])
    }

    pub(super) fn unpack(key: &[u8; 32], row: &[u8; 79]) -> Self {
        Self {
            id: KeyId::from_bytes(*key),
            public: digest(&row[..32]),
            holder: HolderId::of_first_key(KeyId::from_bytes(digest(&row[32..64]))),
            roles: Role::ALL.into_iter().filter(|role| row[64] & (1 << *role as u8) != 0).collect(),
            number: number(&row[65..69]),
            claim: Place::unpack(&row[69..75]),
            since: number(&row[75..79]),
        }
    }

    /// Returns the number of a packed row.
    pub(super) fn number_of(row: &[u8; 79]) -> u32 {
        number(&row[65..69])
    }

    /// Returns whether the key has a role now.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

/// A name as the fold knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameRow {
    /// Who holds it.
    pub holder: HolderId,
    /// Number of versions.
    pub versions: u32,
    /// Claim of the latest version.
    pub claim: Place,
    /// Object of the latest version.
    pub object: ObjectId,
    /// Whether an owner retired or reserved it.
    pub closed: bool,
}

impl NameRow {
    pub(super) fn pack(&self) -> [u8; 75] {
        join(&[
            self.holder.first_key().as_bytes(),
            &self.versions.to_be_bytes(),
            &self.claim.pack(),
            self.object.as_bytes(),
            &[u8::from(self.closed)],
        ])
    }

    pub(super) fn unpack(row: &[u8; 75]) -> Self {
        Self {
            holder: HolderId::of_first_key(KeyId::from_bytes(digest(&row[..32]))),
            versions: number(&row[32..36]),
            claim: Place::unpack(&row[36..42]),
            object: ObjectId::from_bytes(digest(&row[42..74])),
            closed: row[74] != 0,
        }
    }
}

/// A run: its plan's claim and its latest attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunRow {
    /// First claim of the plan.
    pub claim: Place,
    /// Latest start.
    pub last: Option<ObjectId>,
    /// Number of attempts.
    pub attempts: u32,
}

impl RunRow {
    pub(super) fn pack(&self) -> [u8; 42] {
        let last = self.last.map_or([0; 32], |id| *id.as_bytes());
        join(&[&self.claim.pack(), &last, &self.attempts.to_be_bytes()])
    }

    pub(super) fn unpack(row: &[u8; 42]) -> Self {
        let attempts = number(&row[38..42]);
        Self {
            claim: Place::unpack(&row[..6]),
            last: (attempts > 0).then(|| ObjectId::from_bytes(digest(&row[6..38]))),
            attempts,
        }
    }
}

/// One attempt of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptRow {
    /// The run's plan.
    pub plan: ObjectId,
    /// The attempt before it.
    pub before: Option<ObjectId>,
    /// Claim of the start.
    pub claim: Place,
    /// How it ended, and by which claim.
    pub ended: Option<(Status, Place)>,
    /// A later start presumed that it was lost. A real end replaces the presumption.
    pub lost: bool,
}

impl AttemptRow {
    pub(super) fn pack(&self) -> [u8; 79] {
        let before = self.before.map_or([0; 32], |id| *id.as_bytes());
        let (status, end) = match self.ended {
            Some((status, place)) => (status as u8 + 1, place.pack()),
            None => (0, [0; 6]),
        };
        let flags = u8::from(self.lost) | u8::from(self.before.is_some()) << 1;
        join(&[self.plan.as_bytes(), &before, &self.claim.pack(), &[status], &end, &[flags, 0]])
    }

    pub(super) fn unpack(row: &[u8; 79]) -> Self {
        let status = row[70].checked_sub(1).and_then(|at| Status::ALL.get(usize::from(at)));
        Self {
            plan: ObjectId::from_bytes(digest(&row[..32])),
            before: (row[77] & 2 != 0).then(|| ObjectId::from_bytes(digest(&row[32..64]))),
            claim: Place::unpack(&row[64..70]),
            ended: status.map(|status| (*status, Place::unpack(&row[71..77]))),
            lost: row[77] & 1 != 0,
        }
    }
}

/// Where a digest stands in a claim: how `verify` finds records by what lies on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DigestRole {
    /// Tree of a whole checkpoint directory.
    Full,
    /// Tree of what a loader reads.
    Weights,
    /// Tensors.
    Tensors,
    /// Root of a dataset or model.
    Root,
}

impl DigestRole {
    pub(super) fn from_link(role: &str) -> Option<Self> {
        match role {
            "full" => Some(Self::Full),
            "weights" => Some(Self::Weights),
            "tensors" => Some(Self::Tensors),
            "root" => Some(Self::Root),
            _ => None,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        [Self::Full, Self::Weights, Self::Tensors, Self::Root].into_iter().find(|role| *role as u8 == number)
    }
}

/// A mark that a revocation left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// What is marked.
    pub target: MarkTarget,
    /// From which index on the target is tainted; 0 for all of it.
    pub since: u64,
    /// Index of the revoking statement: an answer as of an earlier size does not see it.
    pub index: u32,
}

/// What a mark is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkTarget {
    /// A claim.
    Claim(Place),
    /// An object.
    Object(TypedId),
    /// A key.
    Key(KeyId),
}

impl Mark {
    pub(super) fn pack(&self) -> ([u8; 38], [u8; 8]) {
        let target: [u8; 34] = match self.target {
            MarkTarget::Claim(place) => join(&[&[0], &place.pack(), &[0; 27]]),
            MarkTarget::Object(id) => join(&[&[1], &typed_key(id)]),
            MarkTarget::Key(id) => join(&[&[2], id.as_bytes(), &[0]]),
        };
        (join(&[&target, &self.index.to_be_bytes()]), self.since.to_be_bytes())
    }

    pub(super) fn unpack(key: &[u8; 38], row: [u8; 8]) -> Option<Self> {
        let target = match key[0] {
            0 => MarkTarget::Claim(Place::unpack(&key[1..7])),
            1 => MarkTarget::Object(typed(&key[1..34])?),
            _ => MarkTarget::Key(KeyId::from_bytes(digest(&key[1..33]))),
        };
        Some(Self { target, since: u64::from_be_bytes(row), index: number(&key[34..38]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_packed() {
        let place = Place { index: 70_000, position: 3 };
        let id = ObjectId::from_bytes([4; 32]);
        let holder = HolderId::of_first_key(KeyId::from_bytes([5; 32]));
        let key = KeyRow {
            id: KeyId::from_bytes([6; 32]),
            public: [7; 32],
            holder,
            roles: vec![Role::Author, Role::Owner],
            number: 9,
            claim: place,
            since: 8,
        };
        assert_eq!(KeyRow::unpack(key.id.as_bytes(), &key.pack()), key);
        let name = NameRow { holder, versions: 2, claim: place, object: id, closed: true };
        assert_eq!(NameRow::unpack(&name.pack()), name);
        for run in [
            RunRow { claim: place, last: None, attempts: 0 },
            RunRow { claim: place, last: Some(id), attempts: 2 },
        ] {
            assert_eq!(RunRow::unpack(&run.pack()), run);
        }
        for ended in [None, Some((Status::Completed, place)), Some((Status::Preempted, place))] {
            for before in [None, Some(id)] {
                let attempt = AttemptRow { plan: id, before, claim: place, ended, lost: before.is_none() };
                assert_eq!(AttemptRow::unpack(&attempt.pack()), attempt);
            }
        }
        for target in [
            MarkTarget::Claim(place),
            MarkTarget::Object(TypedId::new(Kind::Dataset, id)),
            MarkTarget::Key(key.id),
        ] {
            let mark = Mark { target, since: 4, index: 11 };
            let (packed, value) = mark.pack();
            assert_eq!(Mark::unpack(&packed, value), Some(mark));
        }
    }
}
