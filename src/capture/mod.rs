//! Observing what a run is made of and what came out: values only, never a ledger.
//!
//! `walk` sees files and directories, `hashing` reads them on all cores, `cache` keeps the digests of those that
//! nobody touches, `code` a repository, `config`, `dataset` and `environment` what they are named for, `hub` where
//! in the hub's cache a path lies, `checkpoint` a directory of weights, `results` the files of an evaluation.
//! Nothing here opens a ledger, prints, or reads a clock.

pub mod cache;
pub mod checkpoint;
pub mod code;
pub mod config;
pub mod dataset;
pub mod environment;
mod hashing;
pub mod hub;
pub mod results;
pub mod safetensors;
pub mod walk;

/// The name by which most of the program knows `checkpoint`: what it asks for are the weights.
pub use checkpoint as weights;
