//! Head files: one commit each, holding the batch of statements, the signed head over them, and its receipt.
//!
//! `log/heads/<size it extends>` is made by `link(2)`, which gives a name to one file only: so each head has
//! exactly one successor, whatever the locks of a network disk do. Whoever finds one can finish the commit
//! without any key. Reading and writing the files is in `files.rs`.

use crate::codec::{self, Reader, Writer};

use super::key::PublicKey;
use super::note::{self, SignedHead};
use super::statement::MAX_STATEMENT;

/// The most statements that one commit may hold.
pub const MAX_BATCH: usize = 4096;
/// The most bytes of statements that one commit may hold.
pub const MAX_BATCH_BYTES: usize = 16 << 20;
/// The most bytes of a head file.
pub const MAX_HEAD_FILE: usize = MAX_BATCH_BYTES + (1 << 20);

/// Why bytes are not a head file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not CBOR in its one form.
    #[error("not a head file in its one form")]
    Encoding(#[from] codec::Error),
    /// A field is absent, unknown or out of range.
    #[error("head file: {0}")]
    Form(&'static str),
    /// The note is not a signed head.
    #[error("the note in the head file is not a signed tree head")]
    Note(#[source] note::Error),
}

/// One commit.
#[derive(Clone, Debug)]
pub struct HeadFile {
    /// Size of the log before.
    pub extends: u64,
    /// Statements in log order.
    pub statements: Vec<Vec<u8>>,
    /// The signed head after them.
    pub head: SignedHead,
    /// `COSE_Sign1` over the root (RFC 9942), from which anybody can make receipts later.
    pub receipt: Vec<u8>,
}

impl HeadFile {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.map(5).text("v").uint(1).text("note").text(self.head.as_str()).text("extends").uint(self.extends);
        w.text("receipt").byte_string(&self.receipt).text("statements").array(self.statements.len());
        for statement in &self.statements {
            w.byte_string(statement);
        }
        w.finish()
    }

    /// Checks that one of these keys signed both the note and the receipt, and returns it.
    ///
    /// Two keys would vouch for the same tree; but a receipt that outlives its head names only its own.
    pub fn verify<'k>(&self, keys: &'k [PublicKey]) -> Result<&'k PublicKey, note::Error> {
        self.head.verify(keys)?;
        let signer = note::verify_receipt(&self.receipt, self.head.head().root, keys)?;
        self.head.verify(std::slice::from_ref(signer))?;
        Ok(signer)
    }

    /// Reads a file. Signatures are not checked here; the head's size must fit the batch.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        const ABSENT: Error = Error::Form("a field is absent");
        let mut r = Reader::new(bytes);
        let mut map = r.map()?;
        let (mut version, mut note, mut extends, mut receipt, mut statements) =
            (None, None, None, None, None);
        while let Some(key) = r.key(&mut map)? {
            match key {
                "v" => version = Some(r.uint()?),
                "note" => note = Some(r.text()?),
                "extends" => extends = Some(r.uint()?),
                "receipt" => receipt = Some(r.bytes()?.to_vec()),
                "statements" => {
                    let count = r.array()? as usize;
                    if count == 0 || count > MAX_BATCH {
                        return Err(Error::Form("a batch has 1 to 4096 statements"));
                    }
                    let mut batch = Vec::with_capacity(count);
                    for _ in 0..count {
                        let statement = r.bytes()?;
                        if statement.len() > MAX_STATEMENT {
                            return Err(Error::Form("a statement is too large"));
                        }
                        batch.push(statement.to_vec());
                    }
                    statements = Some(batch);
                }
                _ => return Err(Error::Form("a field that it may not have")),
            }
        }
        r.end()?;
        if version != Some(1) {
            return Err(Error::Form("not version 1"));
        }
        let file = Self {
            extends: extends.ok_or(ABSENT)?,
            statements: statements.ok_or(ABSENT)?,
            head: SignedHead::parse(note.ok_or(ABSENT)?).map_err(Error::Note)?,
            receipt: receipt.ok_or(ABSENT)?,
        };
        if file.extends.checked_add(file.statements.len() as u64) == Some(file.head.head().size) {
            Ok(file)
        } else {
            Err(Error::Form("the head's size is not that of the batch"))
        }
    }
}
