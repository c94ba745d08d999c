//! `ledger key rotate`: new keys of the same holder in the place of the old.
//!
//! The new file is written first, under a name of its own, so that whatever is interrupted can be gone on with:
//! the command looks for that file and asks the ledger how far it has come. The old file is kept.

use std::path::{Path, PathBuf};

use crate::durable::{Created, outside};
use crate::id::HolderId;
use crate::ledger::{Ledger, Signer, Transaction};
use crate::log::key::{self, PublicKey, SigningKey};
use crate::log::key_file::{KeyFile, MAX_KEY_FILE};
use crate::log::sealed::Wiped;
use crate::model::{Kind, Role, TypedId};
use crate::state::KeyRow;

use super::super::error::Failure;
use super::super::settings::{Context, disk, quoted};
use super::super::ui::{Answer, Exit};
use super::{join, stage};

/// Put new keys of yours in the place of the old
///
/// An owner does it in one statement. Anybody else gets a line for an owner, who runs `ledger key add` with it;
/// the same command again then takes the roles from the old keys. The old key file is kept beside the new one.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key rotate\n  \
                         ledger key rotate --from default.old-4f2a91cc.key   in your next ledger")]
pub(super) struct Args {
    /// The old key file, where your key file is a new one already
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let in_variable = || {
        let message = "the key comes from `LEDGER_KEY`, and no file can be put in its place";
        Failure::new("no-key", Exit::Unknown, message).hint("ledger --key-file FILE key rotate")
    };
    let path = context.key_path().filter(|_| !context.is_key_in_variable()).ok_or_else(in_variable)?;
    let mut ledger = context.open()?;
    let (old, new, staged) = if let Some(from) = &args.from {
        (context.key_at(&context.path(from))?, context.key_file()?, None)
    } else {
        let old = context.key_file()?;
        let (new, staged) = successor(&old, &path, context)?;
        (old, new, Some(staged))
    };
    let row = |key: &SigningKey| row(&ledger, key);
    let Some(before) = row(old.author()) else {
        return Err(Failure::new("unknown-key", Exit::Unknown, "this ledger does not know the old key")
            .hint("ledger key show --request"));
    };
    if before.has(Role::Recovery) {
        let message = "a recovery key is given by the first statement and has no successor";
        return Err(Failure::new("refused", Exit::Refused, message));
    }
    let is_added = row(new.author()).is_some_and(|row| !row.roles.is_empty());
    let author = new.author().public().thumbprint();
    let mut answer = Answer::new("ledger.key-rotate/1");
    answer.set("old", before.id.to_hex());
    answer.set("new", author.to_hex());
    if !is_added && !before.has(Role::Owner) {
        if before.roles.is_empty() {
            let message = "the old key has no roles any more, so it cannot vouch for a new one";
            return Err(Failure::new("refused", Exit::Refused, message)
                .hint("ask an owner to add your new key: ledger key show --request"));
        }
        let line = join::request_line(&new, ledger.id(), Some((&old, before.holder)))?;
        let roles = words(&before, row_of_log(&ledger, &old).as_ref());
        context.ui.talk(format!("note: an owner of this ledger runs: ledger key add 'LINE' --roles {roles}"));
        context.ui.talk("note: then give this command again, and the old key ends");
        answer.line(&line);
        answer.set("request", line);
        return Ok(answer);
    }
    // Whoever signs must have roles before the statement: the old key where it appoints its successor.
    let (signs, orders) = if is_added {
        (new.author(), new.log())
    } else {
        let takes_over = row_of_log(&ledger, &old).is_some_and(|row| row.has(Role::Log));
        (old.author(), new.log().filter(|_| takes_over))
    };
    let signer = Signer { author: signs, log: orders, ..context.signer(&new) };
    let mut tx = ledger.transaction();
    let changed = stage_all(&mut tx, &old, &new, is_added)?;
    if changed {
        let index = context.ordered(tx.commit(&signer)?)?;
        answer.set("index", index);
    } else {
        drop(tx);
    }
    if let Some(staged) = staged {
        let kept = swap(&path, &staged, &old)?;
        context.ui.talk(format!("{} holds the new keys, {} the old", path.display(), kept.display()));
        context
            .ui
            .talk(format!("note: in each other ledger of yours: ledger key rotate --from {}", quoted(&kept)));
        answer.set("kept", kept.display().to_string());
    }
    answer.line(author);
    Ok(answer)
}

fn row(ledger: &Ledger, key: &SigningKey) -> Option<KeyRow> {
    ledger.state().key(key.public().thumbprint())
}

fn row_of_log(ledger: &Ledger, key: &KeyFile) -> Option<KeyRow> {
    key.log().and_then(|log| row(ledger, log))
}

/// Writes the roles of an author key and of the log key beside it.
fn words(author: &KeyRow, log: Option<&KeyRow>) -> String {
    let roles = author.roles.iter().chain(log.iter().flat_map(|row| &row.roles));
    roles.map(|role| role.word()).collect::<Vec<_>>().join(",")
}

/// Finds the new keys of a rotation that was begun, or draws them into a file of their own.
fn successor(old: &KeyFile, path: &Path, context: &Context) -> Result<(KeyFile, PathBuf), Failure> {
    let prefix = format!("{}.new-", stem(path));
    let folder = path.parent().unwrap_or(Path::new("."));
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_begun =
        |name: &String| name.strip_prefix(&prefix).is_some_and(|rest| rest.strip_suffix(".key").is_some());
    if let Some(name) = names.filter_map(|name| name.into_string().ok()).filter(is_begun).min() {
        let staged = folder.join(name);
        return Ok((context.key_at(&staged)?, staged));
    }
    let wrong = |error| Failure::usage("the key has a name that cannot be used").because(error);
    let new = KeyFile::new(old.name(), context.new_key()?, Some(context.new_key()?)).map_err(wrong)?;
    let staged = beside(path, "new", &new);
    // Whoever keeps the old keys under a passphrase wants the new ones under the same.
    let is_sealed = context.stored_key()?.is_sealed();
    let passphrase = is_sealed.then(|| context.passphrase("of the new keys")).transpose()?;
    context.write_key(&staged, &new, passphrase.as_ref())?;
    Ok((new, staged))
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "key".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Names a file beside the key file: `default.old-4f2a91cc.key`.
fn beside(path: &Path, word: &str, key: &KeyFile) -> PathBuf {
    let short = &key.author().public().thumbprint().to_hex()[..8];
    path.with_file_name(format!("{}.{word}-{short}.key", stem(path)))
}

/// Stages what is left to be said: the new keys with the roles of the old, and the end of the old.
fn stage_all(
    tx: &mut Transaction<'_>,
    old: &KeyFile,
    new: &KeyFile,
    is_added: bool,
) -> Result<bool, Failure> {
    let pairs = [(Some(old.author()), Some(new.author())), (old.log(), new.log())];
    let mut changed = false;
    for (old, new) in pairs {
        let Some(before) = old.and_then(|key| row(tx.ledger(), key)) else { continue };
        if before.roles.is_empty() {
            continue;
        }
        let claim = tx.ledger().stated(before.claim)?;
        let display = claim.link("holder").unwrap_or(TypedId::new(Kind::Holder, claim.object.id));
        let holder = (before.holder, display);
        if let Some(new) = new.filter(|_| !is_added) {
            let proof = prove(new, tx.ledger(), before.holder);
            stage(tx, *new.public().as_bytes(), &before.roles, holder, Some(proof), None)?;
        }
        stage(tx, before.public, &[], holder, None, Some(&before))?;
        changed = true;
    }
    Ok(changed)
}

fn prove(key: &SigningKey, ledger: &Ledger, holder: HolderId) -> [u8; 64] {
    let public: PublicKey = key.public();
    key.sign(&key::possession_message(ledger.id().as_bytes(), &public, holder))
}

/// Puts the new file in the place of the old, which is kept; returns where.
fn swap(path: &Path, staged: &Path, old: &KeyFile) -> Result<PathBuf, Failure> {
    let kept = beside(path, "old", old);
    // A copy first: at no time is a key without a file.
    let gone = || Failure::new("no-key", Exit::Unknown, format!("the key `{}` is gone", path.display()));
    let bytes = Wiped::new(outside::read(path, MAX_KEY_FILE)?.ok_or_else(gone)?);
    let is_other = |kept: Option<Vec<u8>>| kept.is_some_and(|kept| kept != *bytes);
    if outside::create(&disk(), &kept, &bytes, 0o600)? == Created::Exists
        && is_other(outside::read(&kept, MAX_KEY_FILE)?)
    {
        let message = format!("`{}` is there already, with something else in it", kept.display());
        return Err(Failure::new("exists", Exit::Refused, message)
            .hint(format!("move it away, and give the command again: ls -l {}", quoted(&kept))));
    }
    outside::rename(&disk(), staged, path)?;
    Ok(kept)
}
