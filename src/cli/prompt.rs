//! A question on the terminal whose answer is not shown.
//!
//! Only ever asked when somebody sits there: both standard input and standard error are a terminal. What is
//! typed goes from the terminal into memory that is overwritten, and nowhere else.

use std::io::{self, IsTerminal as _};

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use crate::log::sealed::{Passphrase, Wiped};

use super::error::Failure;
use super::ui::{Exit, Ui};

/// The longest line that is taken.
const MAX_TYPED: usize = 1024;

/// Whether anybody could answer.
pub(super) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Puts the terminal back as it was, however the question ends.
struct Quiet {
    before: Termios,
}

impl Quiet {
    /// Stops the terminal from showing, editing and acting on what is typed: all three are done here.
    fn begin() -> rustix::io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self { before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// Asks for a passphrase and returns it without the end of its line.
pub(super) fn ask(ui: &Ui, question: &str) -> Result<Passphrase, Failure> {
    let failed = |error| Failure::new("io", Exit::Busy, "the terminal cannot be asked").because(error);
    ui.ask(question);
    let quiet = Quiet::begin().map_err(failed)?;
    let typed = read();
    drop(quiet);
    ui.ask("\n");
    if let Some(typed) = typed.map_err(failed)? {
        return Ok(Passphrase::new(typed.to_vec()));
    }
    // As Ctrl-C would have done, had the terminal acted on it.
    let _ = kill_process(getpid(), Signal::INT);
    Err(Failure::new("interrupted", Exit::Busy, "the question was not answered"))
}

/// Reads a line key by key; `None` when it was broken off.
fn read() -> rustix::io::Result<Option<Wiped<Vec<u8>>>> {
    const INTERRUPT: u8 = 0x03;
    const END: u8 = 0x04;
    const BACK: [u8; 2] = [0x08, 0x7f];
    const CLEAR: u8 = 0x15;
    let mut typed = Wiped::new(Vec::with_capacity(MAX_TYPED));
    loop {
        let mut byte = [0];
        match rustix::io::read(io::stdin(), &mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        match byte[0] {
            b'\n' | b'\r' => return Ok(Some(typed)),
            INTERRUPT => return Ok(None),
            END if typed.is_empty() => return Ok(None),
            CLEAR => typed.clear(),
            key if BACK.contains(&key) => {
                // One character may be several bytes of UTF-8.
                while typed.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            key if typed.len() < MAX_TYPED => typed.push(key),
            _ => {}
        }
    }
}
