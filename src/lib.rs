//! The library.

pub mod acts;
pub mod capture;
pub mod cli;
pub mod codec;
pub mod durable;
pub mod fsck;
pub mod id;
pub mod ledger;
pub mod lineage;
pub mod log;
pub mod model;
pub mod state;
pub mod store;
pub mod verify;
