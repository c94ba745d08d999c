//! Where this user's keys come from: a file or a variable, and the passphrase that opens them.
//!
//! A passphrase comes from `--passphrase-file`, else from `LEDGER_PASSPHRASE`, else from the terminal if there is
//! one. It is never an argument, and nothing here prints or records it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use crate::durable::{self, Created, outside};
use crate::id::KeyId;
use crate::ledger::Signer;
use crate::log::key::SigningKey;
use crate::log::key_file::{self, KeyFile, MAX_KEY_FILE, Stored};
use crate::log::sealed::{Passphrase, Wiped};

use super::error::Failure;
use super::prompt;
use super::settings::{Context, disk, quoted};
use super::ui::Exit;

/// The variable that holds a passphrase; one that is set and empty is an empty passphrase.
const PASSPHRASE: &str = "LEDGER_PASSPHRASE";
/// The longest passphrase file that is read.
const MAX_PASSPHRASE: usize = 4096;
/// What helps where a passphrase is wanted and nobody can be asked.
const GIVE: &str = "ledger --passphrase-file FILE COMMAND, or set LEDGER_PASSPHRASE";

impl Context {
    /// Returns the key file's text in `LEDGER_KEY`, which a named file goes before.
    fn key_text(&self) -> Option<&str> {
        if self.key_flag.is_some() { None } else { self.filled("LEDGER_KEY") }
    }

    /// Whether the keys come from `LEDGER_KEY` and not from a file.
    pub(crate) fn is_key_in_variable(&self) -> bool {
        self.key_text().is_some()
    }

    /// Whether somebody said which keys to use.
    pub(crate) fn is_key_named(&self) -> bool {
        self.key_flag.is_some() || self.key_text().is_some() || self.filled("LEDGER_KEY_FILE").is_some()
    }

    /// Returns the path of the key file, whether or not there is one; `None` without a configuration directory.
    pub(crate) fn key_path(&self) -> Option<PathBuf> {
        let named = self.key_flag.as_deref().or(self.filled("LEDGER_KEY_FILE").map(Path::new));
        match named {
            Some(path) => Some(self.path(path)),
            None => Some(self.config_dir()?.join("keys/default.key")),
        }
    }

    /// Reads this user's keys as they are kept: from `LEDGER_KEY`, from the file that was named, or the default
    /// file. No passphrase is needed for that.
    pub(crate) fn stored_key(&self) -> Result<Stored, Failure> {
        if let Some(text) = self.key_text() {
            return Stored::parse(text).map_err(|error| {
                Failure::new("no-key", Exit::Unknown, "`LEDGER_KEY` does not hold a key file")
                    .hint("LEDGER_KEY=\"$(cat FILE)\"")
                    .because(error)
            });
        }
        let path = self.key_path().ok_or_else(|| {
            Failure::new("no-key", Exit::Unknown, "there is no home directory to read a key from")
                .hint("LEDGER_KEY_FILE=FILE ledger key new")
        })?;
        stored_at(&path)
    }

    /// Reads this user's keys and makes them ready to sign, asking for a passphrase if they are under one.
    pub(crate) fn key_file(&self) -> Result<KeyFile, Failure> {
        let place = match self.key_path() {
            Some(path) if !self.is_key_in_variable() => format!("`{}`", path.display()),
            _ => "`LEDGER_KEY`".to_owned(),
        };
        self.unlock(&self.stored_key()?, &place)
    }

    /// Reads the keys in a file of the user's choice and makes them ready to sign.
    pub(crate) fn key_at(&self, path: &Path) -> Result<KeyFile, Failure> {
        self.unlock(&stored_at(path)?, &format!("`{}`", path.display()))
    }

    fn unlock(&self, stored: &Stored, place: &str) -> Result<KeyFile, Failure> {
        // What was typed for one file may fit the next one, and if not, is asked for again.
        if stored.is_sealed() {
            let typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(typed) = typed
                && let Ok(key) = stored.open(Some(&typed))
            {
                self.keep(&typed);
                return Ok(key);
            }
        }
        let passphrase = if stored.is_sealed() { Some(self.passphrase(place)?) } else { None };
        stored.open(passphrase.as_ref()).map_err(|error| match error {
            key_file::Error::WrongPassphrase => wrong_passphrase(place),
            error => Failure::new("no-key", Exit::Unknown, format!("the key {place} cannot be opened"))
                .because(error),
        })
    }

    /// Returns the passphrase that was given by file or variable, or typed for this command before.
    fn given_passphrase(&self) -> Result<Option<Passphrase>, Failure> {
        if let Some(path) = &self.passphrase_flag {
            let path = self.path(path);
            let missing = || {
                let message = format!("there is no passphrase file `{}`", path.display());
                Failure::new("locked-key", Exit::Unknown, message).hint(format!("ls -l {}", quoted(&path)))
            };
            let bytes = Wiped::new(outside::read(&path, MAX_PASSPHRASE)?.ok_or_else(missing)?);
            let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            return Ok(Some(Passphrase::new(line.strip_suffix(b"\r").unwrap_or(line).to_vec())));
        }
        let var = self.vars.iter().find(|(name, _)| name == PASSPHRASE);
        if let Some((_, value)) = var {
            use std::os::unix::ffi::OsStrExt as _;
            return Ok(Some(Passphrase::new(value.as_bytes().to_vec())));
        }
        Ok(self.typed.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Returns the passphrase for what is sealed at `place`.
    pub(crate) fn passphrase(&self, place: &str) -> Result<Passphrase, Failure> {
        if let Some(given) = self.given_passphrase()? {
            return Ok(given);
        }
        if !prompt::is_possible() {
            let message = format!("the key {place} is under a passphrase, and none was given");
            return Err(Failure::new("locked-key", Exit::Unknown, message).hint(GIVE));
        }
        let typed = prompt::ask(&self.ui, &format!("passphrase of {place}: "))?;
        self.keep(&typed);
        Ok(typed)
    }

    /// Keeps what was typed until the command ends: a run is started and ended by one.
    fn keep(&self, typed: &Passphrase) {
        *self.typed.lock().unwrap_or_else(PoisonError::into_inner) = Some(typed.clone());
    }

    /// Returns the passphrase under which new keys are to be kept; `None` for none.
    ///
    /// `wanted` is what flags said. Without them a given passphrase is used, and a terminal is asked if `may_ask`.
    pub(crate) fn new_passphrase(
        &self,
        wanted: Option<bool>,
        may_ask: bool,
    ) -> Result<Option<Passphrase>, Failure> {
        if wanted == Some(false) {
            return Ok(None);
        }
        if let Some(given) = self.given_passphrase()? {
            return Ok(Some(given));
        }
        if !(prompt::is_possible() && (may_ask || wanted == Some(true))) {
            return match wanted {
                Some(_) => {
                    let message = "a passphrase is wanted, and there is no terminal to ask on";
                    Err(Failure::new("locked-key", Exit::Unknown, message).hint(GIVE))
                }
                None => Ok(None),
            };
        }
        let none = if wanted.is_some() { "" } else { " (empty for none)" };
        let typed = prompt::ask(&self.ui, &format!("new passphrase{none}: "))?;
        if typed.is_empty() && wanted.is_none() {
            return Ok(None);
        }
        if prompt::ask(&self.ui, "the same again: ")? != typed {
            let message = "the two passphrases differ";
            return Err(Failure::new("usage", Exit::Usage, message).hint("give the command again"));
        }
        self.keep(&typed);
        Ok(Some(typed))
    }

    /// Returns the text of a key file, sealed if there is a passphrase.
    pub(crate) fn key_file_text(
        &self,
        key: &KeyFile,
        passphrase: Option<&Passphrase>,
    ) -> Result<Wiped<String>, Failure> {
        let Some(passphrase) = passphrase else { return Ok(key.to_text()) };
        key.to_sealed_text(passphrase, &mut self.entropy()?)
            .map_err(|error| Failure::new("bug", Exit::Bug, "the key cannot be sealed").because(error))
    }

    /// Writes a key file where there is none yet.
    pub(crate) fn write_key(
        &self,
        path: &Path,
        key: &KeyFile,
        passphrase: Option<&Passphrase>,
    ) -> Result<(), Failure> {
        let text = self.key_file_text(key, passphrase)?;
        let shown = path.display();
        match outside::create(&disk(), path, text.as_bytes(), 0o600) {
            Ok(Created::New) => Ok(()),
            Ok(Created::Exists) => {
                Err(Failure::new("exists", Exit::Refused, format!("there is a key at `{shown}` already"))
                    .hint("ledger key show"))
            }
            Err(error @ durable::Error::Full { .. }) => Err(error.into()),
            Err(error) => {
                Err(Failure::new("no-key", Exit::Unknown, format!("no key can be kept at `{shown}`"))
                    .hint("LEDGER_KEY_FILE=FILE ledger key new")
                    .because(error))
            }
        }
    }

    /// Makes a key file for this user and returns it with its path; there must be none yet.
    pub(crate) fn make_key(
        &self,
        name: &str,
        author: Option<SigningKey>,
        passphrase: Option<&Passphrase>,
    ) -> Result<(KeyFile, PathBuf), Failure> {
        let no_home = || {
            Failure::new("no-key", Exit::Unknown, "there is no home directory to keep a key in")
                .hint("LEDGER_KEY_FILE=FILE ledger key new")
        };
        let path = self.key_path().ok_or_else(no_home)?;
        let author = author.map_or_else(|| self.new_key(), Ok)?;
        let key = KeyFile::new(name, author, Some(self.new_key()?))
            .map_err(|error| Failure::usage("the display name of a key cannot be used").because(error))?;
        self.write_key(&path, &key, passphrase)?;
        Ok((key, path))
    }

    /// Draws a new key.
    pub(crate) fn new_key(&self) -> Result<SigningKey, Failure> {
        Ok(SigningKey::from_seed(&Wiped::new(self.random()?)))
    }

    /// Returns the name by which a new key's holder is shown, unless another is given.
    pub(crate) fn user_name(&self) -> String {
        ["USER", "LOGNAME"]
            .iter()
            .find_map(|name| self.filled(name))
            .map_or_else(|| "author".to_owned(), str::to_owned)
    }

    /// Returns whoever writes now.
    pub(crate) fn signer<'k>(&self, key: &'k KeyFile) -> Signer<'k> {
        Signer {
            author: key.author(),
            log: key.log(),
            time: self.now,
            wait: self.lock_wait,
            user: self.user(),
        }
    }
}

/// The answer to a passphrase that does not fit; which part of it is wrong nobody can say.
pub(super) fn wrong_passphrase(place: &str) -> Failure {
    Failure::new("wrong-passphrase", Exit::Unknown, format!("the passphrase does not open the key {place}"))
}

/// Reads the key file at a path.
fn stored_at(path: &Path) -> Result<Stored, Failure> {
    let no_key = |message: String| Failure::new("no-key", Exit::Unknown, message).hint("ledger key new");
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            return Err(Failure::new(
                "loose-key",
                Exit::Unknown,
                format!("others may read the key `{shown}`"),
            )
            .hint(format!("chmod 600 {}", quoted(path))));
        }
        _ => {}
    }
    let bytes = match outside::read(path, MAX_KEY_FILE) {
        Ok(Some(bytes)) => Wiped::new(bytes),
        Ok(None) => return Err(no_key(format!("there is no key at `{shown}`"))),
        Err(error) => return Err(no_key(format!("the key `{shown}` cannot be read")).because(error)),
    };
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    Stored::parse(text).map_err(|error| {
        Failure::new("no-key", Exit::Unknown, format!("`{shown}` is not a key file"))
            .hint("bring back your copy of it, or name another one: LEDGER_KEY_FILE=FILE")
            .because(error)
    })
}

/// Returns the keys of a key file by thumbprint: author, then log.
pub(crate) fn thumbprints(key: &Stored) -> (KeyId, Option<KeyId>) {
    (key.author().thumbprint(), key.log().map(|log| log.thumbprint()))
}
