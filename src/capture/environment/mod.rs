//! What a run will stand on besides its code and data: lock file, interpreter, packages, machine, variables, argv.
//!
//! | file | what it sees |
//! |---|---|
//! | `lock`, `packages`, `requirements`, `marker` | the lock file, what it names, and whether that counts here |
//! | `interpreter`, `installed` | which Python, and what is installed for it |
//! | `difference` | what is installed against what is locked |
//! | `machine` | processor, memory, accelerators, kernel, container, and how the run was launched |
//! | `argv`, `redact`, `secrets` | the command and the variables, without places and secrets |
//!
//! Everything is observed cheaply and returned; nothing installed is imported, and no package is looked up.
//! Variables and search paths come in as arguments. What could be a secret is left out by [`redact`] before
//! anybody else sees it.

mod argv;
mod difference;
mod installed;
mod interpreter;
mod lock;
mod machine;
mod marker;
mod packages;
pub mod redact;
mod requirements;
mod secrets;

pub use argv::relative_argv;
pub use difference::{Departure, Departures, departures};
pub use installed::{Distribution, Installed, Origin, Place, read_installed};
pub use interpreter::{Interpreter, NoInterpreter, observe_interpreter};
pub use lock::{Error as LockError, Kind as LockKind, Lock, Quality, find_lock, read_lock, understand_lock};
pub use machine::{Container, Machine, launch_facts, observe_container, observe_machine, text_of};
pub use marker::Target;
pub use packages::{Locked, Manager, normalised};
pub use redact::{allowed_variables, is_secret_name, redact_argv, redact_text};
pub use secrets::{Secret, Where, find_secrets, named_secret};

/// The operating system and processor that this program was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    /// Operating system, such as `linux`.
    pub os: &'static str,
    /// Processor, such as `x86_64`.
    pub arch: &'static str,
}

impl Platform {
    /// Returns this program's own platform.
    pub const fn current() -> Self {
        Self { os: std::env::consts::OS, arch: std::env::consts::ARCH }
    }
}
