//! Crowds: many processes on one ledger, with kills, without locks, of several users, and with one that stops.
//!
//! Whatever was acknowledged is there once, and whoever comes next can write.
#![expect(clippy::disallowed_methods, reason = "tests lay files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test cannot do without ends it")]
#![expect(clippy::print_stdout, reason = "figures and seeds are worth knowing")]

#[path = "../figures/mod.rs"]
mod figures;
mod freezes;
mod killed;
#[path = "../people/mod.rs"]
#[expect(dead_code, reason = "other tests meet more people")]
mod people;
mod stopped;
#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "snapshots are for the tests of words")]
mod support;
mod unlocked;
mod users;

use std::time::Duration;

/// Numbers that look drawn and are the same each time: a seed that is printed tells the whole draw.
#[derive(Debug)]
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a part of a span.
    fn part(&mut self, of: Duration) -> Duration {
        of.mul_f64((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// Returns the seed of a test's draw, which a variable may set, and prints it.
fn seed(test: &str) -> u64 {
    let given = std::env::var("LEDGER_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or(1);
    println!("{test}: LEDGER_TEST_SEED={seed}");
    seed
}
