//! Contracts: rules over facts in one small language. So far this is what a list is filtered by.
//!
//! Everything here is a function of what it is given: no ledger, clock, file or network.

pub mod expr;

pub use expr::{Error, Field, Filter, Row, Value};
