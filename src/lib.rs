//! See the brief.

pub mod codec;
pub mod id;
