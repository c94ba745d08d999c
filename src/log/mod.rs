//! The log: an append-only Merkle tree of signed statements, in the files of a C2SP tlog-tiles log.
//!
//! | file | what it knows |
//! |---|---|
//! | `merkle` | RFC 6962 hashing and proofs, nothing else |
//! | `tile` | names, widths and bytes of tiles and bundles |
//! | `tree` | roots and proofs out of tiles |
//! | `key` | Ed25519 keys, COSE's signed structure |
//! | `key_file` | the text of a key file |
//! | `sealed`, `openssh` | seeds under a passphrase, keys of other programs |
//! | `note` | signed notes, tree heads, receipt signatures |
//! | `proof` | proofs for those who do not have the log, in text and as receipts |
//! | `statement` | the one byte form of a leaf |
//! | `head_file` | the one byte form of a commit |
//! | `files` | all of it on disk |
//! | `copy` | how much of it is here, and copying it elsewhere |
//!
//! The log knows statements, not records: what a claim means is for the fold.

mod copy;
pub mod files;
pub mod head_file;
pub mod key;
pub mod key_file;
pub mod merkle;
pub mod note;
pub mod openssh;
pub mod proof;
pub mod sealed;
pub mod statement;
pub mod tile;
pub mod tree;

pub use files::Log;
pub use head_file::HeadFile;
