//! Proofs of statements and of older heads, each checked as its reader will check it before anybody gets it.
//!
//! How a proof is written is for `log/proof.rs`. Under which head something is proven is decided here: the newest,
//! or an older one whose commit is kept.

use crate::id::{StatementId, TreeHash, statement_id};
use crate::log::files;
use crate::log::merkle;
use crate::log::note::{self, SignedHead};
use crate::log::proof::{self, Held, Proof, Subject};
use crate::log::tree;

use super::{Error, Ledger, Segment, parents};

/// A head to prove things under.
#[derive(Clone, Debug)]
pub struct Under {
    /// The signed head.
    pub head: SignedHead,
    /// Its receipt signature, where the commit that made it is kept.
    pub receipt: Option<Vec<u8>>,
}

/// A proof in a form that was read back and checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proven {
    /// The text form.
    Text(String),
    /// The receipt.
    Receipt(Vec<u8>),
}

impl Ledger {
    /// Finds the head of a size, or the newest one.
    pub fn head_of(&self, size: Option<u64>) -> Result<Under, Error> {
        self.head_in(&self.segment(self.state().base()).0, &self.head, size)
    }

    /// Finds a head of the log in which the statement at a place stands: of a size, or the last one.
    pub fn head_over(&self, place: u64, size: Option<u64>) -> Result<Under, Error> {
        let (segment, _) = self.segment(place);
        if segment.ledger == self.id() {
            return self.head_in(&segment, &self.head, size);
        }
        let last = parents::head_of(&segment.log, &segment.as_parent())?;
        self.head_in(&segment, &last, size)
    }

    fn head_in(&self, segment: &Segment, last: &SignedHead, size: Option<u64>) -> Result<Under, Error> {
        let newest = last.head();
        let size = size.unwrap_or(newest.size);
        let missing = Error::NoSuchHead { size };
        if size > newest.size {
            return Err(missing);
        }
        let file = segment.log.head_file_to(size)?;
        let (head, receipt) = match file {
            Some(file) if size < newest.size => (file.head, Some(file.receipt)),
            Some(file) if file.head.head() == newest => (last.clone(), Some(file.receipt)),
            _ if size == newest.size => (last.clone(), None),
            _ => return Err(missing),
        };
        let root = segment.log.root_at(&segment.log.tiles(), size, newest.size, newest.root)?;
        if head.head().origin != newest.origin || head.head().root != root {
            return Err(missing);
        }
        // A head of an earlier time may be by a key that has no say any more, and then it convinces nobody.
        let retired = |source| Error::RetiredHead { size, source };
        head.verify(&self.log_keys()).map_err(retired)?;
        if let Some(receipt) = &receipt {
            note::verify_receipt(receipt, head.head().root, &self.log_keys()).map_err(retired)?;
        }
        Ok(Under { head, receipt })
    }

    /// Returns the root of the log when it had so many statements, proven against the newest head.
    pub fn past_root(&self, size: u64) -> Result<TreeHash, Error> {
        let head = self.head.head();
        Ok(self.log.root_at(&self.log.tiles(), size, head.size, head.root)?)
    }

    /// Returns the bytes of the statement at a place.
    pub fn statement_bytes(&self, place: u64) -> Result<Vec<u8>, Error> {
        let (Segment { log, size, .. }, index) = self.segment(place);
        Ok(log.statement(size, index)?)
    }

    /// Proves the statement at a place to be under a head of the log that it stands in.
    pub fn prove_statement(&self, place: u64, under: &Under, as_receipt: bool) -> Result<Proven, Error> {
        let (segment, index) = self.segment(place);
        let size = under.head.head().size;
        if under.head.head().origin != note::origin(segment.ledger) {
            return Err(Error::NoSuchHead { size });
        }
        let path = tree::inclusion_proof(&segment.log.tiles(), index, size).map_err(files::Error::from)?;
        let held = Held::Statement(statement_id(&self.statement_bytes(place)?));
        self.proven(&Proof { subject: Subject::Leaf { index }, path }, held, under, as_receipt)
    }

    /// Proves a head to continue the one that this log had at an earlier size.
    pub fn prove_continuation(&self, old: u64, under: &Under, as_receipt: bool) -> Result<Proven, Error> {
        let size = under.head.head().size;
        let path = tree::consistency_proof(&self.log.tiles(), old, size).map_err(files::Error::from)?;
        let held = Held::Root(self.past_root(old)?);
        self.proven(&Proof { subject: Subject::Past { size: old }, path }, held, under, as_receipt)
    }

    /// Writes a proof in its form, and reads and checks what was written.
    fn proven(&self, proof: &Proof, held: Held, under: &Under, as_receipt: bool) -> Result<Proven, Error> {
        let (keys, end) = (self.log_keys(), under.head.head());
        if !as_receipt {
            let text = proof.to_text(&under.head);
            proof::verify_text(&text, held, &keys)?;
            return Ok(Proven::Text(text));
        }
        let signature = under.receipt.as_ref().ok_or(Error::NoReceipt { size: end.size })?;
        let receipt = proof.to_receipt(end.size, signature)?;
        let root = proof::verify_receipt(&receipt, held, &keys)?;
        if root != end.root {
            return Err(proof::Error::from(merkle::Error::Root {
                size: end.size,
                expected: end.root,
                found: root,
            })
            .into());
        }
        Ok(Proven::Receipt(receipt))
    }

    /// Checks that a statement is under the head: its bytes, the path of hashes, and the head's root.
    ///
    /// In the log of a parent it is the root that is gone on from.
    pub fn prove_inclusion(&self, place: u32) -> Result<(), Error> {
        let (Segment { log, size, root, .. }, index) = self.segment(u64::from(place));
        let proof = tree::inclusion_proof(&log.tiles(), index, size).map_err(files::Error::from)?;
        let leaf: StatementId = statement_id(&self.statement_bytes(u64::from(place))?);
        merkle::verify_inclusion(leaf, index, size, &proof, root)
            .map_err(|source| files::Error::Inconsistent { size, source }.into())
    }
}
