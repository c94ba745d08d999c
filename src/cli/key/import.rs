//! Keys that come from other programs, and the passphrase of one's own.
//!
//! An imported key becomes the author key of a new key file. The log key beside it is always drawn anew: what
//! one key signs in one role must not count in the other.

use std::path::PathBuf;

use crate::durable::outside;
use crate::id::HolderId;
use crate::log::key::SigningKey;
use crate::log::key_file::MAX_KEY_FILE;
use crate::log::openssh::{from_openssh, is_openssh};
use crate::log::sealed::{self, Wiped, from_pem};

use super::super::error::Failure;
use super::super::settings::{Context, disk, quoted};
use super::super::ui::{Answer, Exit};
use super::Sealed;

/// Make a key file of an Ed25519 key that you have
///
/// Takes private keys of OpenSSH and PKCS#8 PEM files, also under a passphrase. The new key file is kept under
/// the same passphrase unless a flag says otherwise.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key import ~/.ssh/id_ed25519\n  ledger key import key.pem --name kim")]
pub(super) struct Args {
    /// The private key
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The name that people see beside the key
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    sealed: Sealed,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let path = context.path(&args.file);
    let missing = || {
        let message = format!("there is no file `{}`", args.file.display());
        Failure::new("bad-data", Exit::Usage, message).hint(format!("ls -l {}", quoted(&args.file)))
    };
    let bytes = Wiped::new(outside::read(&path, MAX_KEY_FILE)?.ok_or_else(missing)?);
    let text = std::str::from_utf8(&bytes).map_err(|_| Failure::from(sealed::Error::Form))?;
    let read = |passphrase: Option<&sealed::Passphrase>| {
        if is_openssh(text) {
            from_openssh(text, passphrase)
        } else {
            from_pem(text, passphrase).map(|seed| (seed, String::new()))
        }
    };
    let (read, was_sealed) = match read(None) {
        Err(sealed::Error::Sealed) => {
            let passphrase = context.passphrase(&format!("`{}`", args.file.display()))?;
            (read(Some(&passphrase)), true)
        }
        found => (found, false),
    };
    let (seed, comment) = read.map_err(|error| {
        let mut failure = Failure::from(error);
        failure.facts.push(format!("file  {}", args.file.display()));
        failure
    })?;
    let name = args.name.clone().unwrap_or_else(|| match comment.trim() {
        "" => context.user_name(),
        comment => comment.to_owned(),
    });
    let wanted = args.sealed.wanted().or(was_sealed.then_some(true));
    let passphrase = context.new_passphrase(wanted, true)?;
    let author = SigningKey::from_seed(&seed);
    let (key, path) = context.make_key(&name, Some(author), passphrase.as_ref())?;
    let author = key.author().public().thumbprint();
    context.ui.talk(format!("made {} for {name}, with a log key of its own", path.display()));
    let mut answer = Answer::new("ledger.key-import/1");
    answer.line(author);
    answer.set("author", author.to_hex());
    answer.set("holder", HolderId::of_first_key(author).to_string());
    answer.set("name", name);
    answer.set("file", path.display().to_string());
    answer.set("sealed", passphrase.is_some());
    Ok(answer)
}

/// Put your key under another passphrase, or under none
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key passphrase            asks for the old and the new one\n  \
                         ledger key passphrase --new-file FILE\n  ledger key passphrase --remove")]
pub(super) struct PassphraseArgs {
    /// Take the new one from the first line of FILE
    #[arg(long, value_name = "FILE", conflicts_with = "remove")]
    new_file: Option<PathBuf>,
    /// Keep the key in clear from now on
    #[arg(long)]
    remove: bool,
}

pub(super) fn passphrase(args: &PassphraseArgs, context: &Context) -> Result<Answer, Failure> {
    let in_variable = || {
        let message = "the key comes from `LEDGER_KEY`, and there is no file to write it to";
        Failure::new("no-key", Exit::Unknown, message).hint("ledger --key-file FILE key passphrase")
    };
    let path = context.key_path().filter(|_| !context.is_key_in_variable()).ok_or_else(in_variable)?;
    let key = context.key_file()?;
    // What opened the old file must not be taken for the new passphrase.
    let fresh = Context {
        passphrase_flag: args.new_file.clone(),
        vars: context.vars.iter().filter(|(name, _)| name != "LEDGER_PASSPHRASE").cloned().collect(),
        typed: std::sync::Arc::default(),
        ..context.clone()
    };
    let new = fresh.new_passphrase(Some(!args.remove), true)?;
    let text = context.key_file_text(&key, new.as_ref())?;
    outside::replace(&disk(), &path, text.as_bytes(), 0o600)?;
    let how = if new.is_some() { "under a new passphrase" } else { "in clear" };
    context.ui.talk(format!("{} is {how} now; older copies of it are as they were", path.display()));
    let mut answer = Answer::new("ledger.key-passphrase/1");
    answer.set("file", path.display().to_string());
    answer.set("sealed", new.is_some());
    Ok(answer)
}
