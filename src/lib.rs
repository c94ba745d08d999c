//! The library.

pub mod acts;
pub mod capture;
pub mod cli;
pub mod codec;
pub mod durable;
pub mod id;
pub mod ledger;
pub mod log;
pub mod model;
pub mod state;
pub mod store;
