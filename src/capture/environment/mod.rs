//! What a run will stand on besides its code and data: lock file, interpreter, platform, variables, argv.
//!
//! Everything is observed cheaply and returned; nothing installed is imported, and no package is looked up.
//! Variables and search paths come in as arguments. What could be a secret is left out by [`redact`] before
//! anybody else sees it.

mod argv;
mod interpreter;
mod lock;
pub mod redact;

pub use argv::relative_argv;
pub use interpreter::{Interpreter, NoInterpreter, observe_interpreter};
pub use lock::{Error as LockError, Kind as LockKind, Lock, Quality, find_lock, read_lock};
pub use redact::{allowed_variables, is_secret_name, redact_argv};

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

/// The environment of a run, as far as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The lock file.
    pub lock: Option<Lock>,
    /// The interpreter.
    pub interpreter: Option<Interpreter>,
    /// The platform.
    pub platform: Platform,
}
