//! `ledger key`: this user's keys, the keys of a ledger, and what can be done with both.
//!
//! How somebody joins is in `join`, how keys end in `revoke`, how they are replaced in `rotate`, and how they
//! come from other programs and under a passphrase in `import`.

mod import;
mod join;
mod revoke;
mod rotate;

use std::path::PathBuf;

use serde_json::json;

use crate::id::{HolderId, KeyId, LedgerId, Prefix};
use crate::ledger::{Ledger, StagedClaim, Transaction};
use crate::log::key::ssh_line;
use crate::model::{self, Fixed, Role, TypedId};
use crate::state::KeyRow;
use crate::verify;

use super::error::Failure;
use super::keyring::thumbprints;
use super::settings::Context;
use super::trust::trust_file;
use super::ui::{Answer, Exit, plain};

/// Make, show, add and trust keys
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key show --request   what to send to an owner to join a ledger\n  \
                         ledger key add LINE         what the owner does with it")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    New(New),
    Show(Show),
    Ls(Ls),
    Add(join::Add),
    Trust(TrustArgs),
    Revoke(revoke::Args),
    Rotate(rotate::Args),
    Import(import::Args),
    Passphrase(import::PassphraseArgs),
    Export(Export),
}

/// Make a key for yourself
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key new\n  LEDGER_KEY_FILE=ci.key ledger key new --name CI")]
struct New {
    /// The name that people see beside the key
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    sealed: Sealed,
}

/// Whether a new key file is kept under a passphrase.
#[derive(Debug, clap::Args)]
struct Sealed {
    /// Keep the key under a passphrase, and ask for one if none is given
    #[arg(long, conflicts_with = "no_passphrase")]
    passphrase: bool,
    /// Keep the key in clear, and ask nothing
    #[arg(long)]
    no_passphrase: bool,
}

impl Sealed {
    const fn wanted(&self) -> Option<bool> {
        match (self.passphrase, self.no_passphrase) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

/// Show your own key, or print a request to join
#[derive(Debug, clap::Args)]
#[command(
    before_help = "  ledger key show\n  ledger key show --request   one line for an owner of this ledger"
)]
struct Show {
    /// Print one line with which an owner adds your key to this ledger
    #[arg(long)]
    request: bool,
}

/// List the keys of this ledger
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key ls\n  ledger key ls --json")]
struct Ls {}

/// Trust a ledger by its id
///
/// Take the id from an owner, not from the directory that you want to check.
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key trust ID\n  ledger key trust ID --name lab")]
struct TrustArgs {
    /// The ledger's id, in full
    #[arg(value_name = "ID")]
    id: String,
    /// What you call it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Print what other tools and people need to check this ledger
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key export --vkey    verifier keys of signed notes\n  \
                         ledger key export --trust   a trust file\n  \
                         ledger key export --ssh     your public key, as OpenSSH lists it")]
#[group(required = true, multiple = false)]
struct Export {
    /// All log keys, as verifier keys of signed notes
    #[arg(long)]
    vkey: bool,
    /// A trust file that names this ledger
    #[arg(long)]
    trust: bool,
    /// Your own public author key, as one line of OpenSSH
    #[arg(long)]
    ssh: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    match &args.command {
        Command::New(args) => new(args, context),
        Command::Show(args) if args.request => join::request(context),
        Command::Show(_) => show(context),
        Command::Ls(_) => ls(context),
        Command::Add(args) => join::add(args, context),
        Command::Trust(args) => trust(args, context),
        Command::Revoke(args) => revoke::run(args, context),
        Command::Rotate(args) => rotate::run(args, context),
        Command::Import(args) => import::run(args, context),
        Command::Passphrase(args) => import::passphrase(args, context),
        Command::Export(args) => export(args, context),
    }
}

fn new(args: &New, context: &Context) -> Result<Answer, Failure> {
    let name = args.name.clone().unwrap_or_else(|| context.user_name());
    let passphrase = context.new_passphrase(args.sealed.wanted(), true)?;
    let (key, path) = context.make_key(&name, None, passphrase.as_ref())?;
    let author = key.author().public().thumbprint();
    context.ui.talk(format!("made {} for {name}; keep it secret, keep a copy", path.display()));
    let mut answer = Answer::new("ledger.key-new/1");
    answer.line(author);
    answer.set("author", author.to_hex());
    answer.set("name", name);
    answer.set("file", path.display().to_string());
    answer.set("sealed", passphrase.is_some());
    Ok(answer)
}

fn show(context: &Context) -> Result<Answer, Failure> {
    let key = context.stored_key()?;
    let path = if context.is_key_in_variable() { None } else { context.key_path() };
    let file = path.map(|path: PathBuf| path.display().to_string());
    // Outside of a ledger a key has no roles, and that is no error.
    let ledger = context.locate().ok().map(|_| context.open()).transpose()?;
    let (author, log) = thumbprints(&key);
    let holder = HolderId::of_first_key(author);
    let row = |id: KeyId| ledger.as_ref().and_then(|ledger| ledger.state().key(id));
    let holder = row(author).map_or(holder, |row| row.holder);
    let mut answer = Answer::new("ledger.key-show/1");
    answer.line(format!("name    {}", key.name()));
    answer.line(format!("holder  {holder}"));
    answer.set("name", key.name());
    answer.set("holder", holder.to_string());
    for (word, id) in [("author", Some(author)), ("log", log)] {
        let Some(id) = id else { continue };
        let roles = match (&ledger, row(id)) {
            (None, _) => String::new(),
            (Some(_), Some(row)) => format!("  {}", role_words(&row)),
            (Some(_), None) => "  not in this ledger".to_owned(),
        };
        answer.line(format!("{word:<6}  {id}{roles}"));
        let roles = row(id).map(|row| row.roles.iter().map(|role| role.word()).collect::<Vec<_>>());
        answer.set(word, json!({"key": id.to_hex(), "roles": roles}));
    }
    answer.line(format!("file    {}", file.as_deref().unwrap_or("none: from `LEDGER_KEY`")));
    answer.line(format!("sealed  {}", if key.is_sealed() { "yes: a passphrase opens it" } else { "no" }));
    answer.set("sealed", key.is_sealed());
    answer.set("file", file);
    Ok(answer)
}

fn ls(context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let mut answer = Answer::new("ledger.keys/1");
    // Whether one's own key is sealed is told where it is listed; the ledger does not know of anybody else's.
    let own = context.stored_key().ok();
    let is_sealed = |id: KeyId| {
        let own = own.as_ref().filter(|key| {
            let (author, log) = thumbprints(key);
            author == id || log == Some(id)
        });
        own.map(crate::log::key_file::Stored::is_sealed)
    };
    let compromised = verify::compromised_keys(&ledger)?;
    for row in ledger.state().keys() {
        let name = ledger.holder_name(row.holder);
        let compromised = compromised.get(&row.id).copied();
        let mut shown = plain(name.as_deref().unwrap_or("-"));
        if is_sealed(row.id) == Some(true) {
            shown.push_str(", sealed");
        }
        if let Some(since) = compromised {
            shown = format!("{shown}, compromised since {since}");
        }
        let line = format!("{}  {:>5}  {:<40}  {shown}", row.id, row.since, role_words(&row));
        context.ui.row(&mut answer, "keys", line, || {
            json!({
                "key": row.id.to_hex(),
                "holder": row.holder.to_string(),
                "name": name,
                "roles": row.roles.iter().map(|role| role.word()).collect::<Vec<_>>(),
                "since": row.since,
                "compromised_since": compromised,
                "sealed": is_sealed(row.id),
            })
        })?;
    }
    answer.end_list(&context.ui, "keys");
    Ok(answer)
}

fn role_words(row: &KeyRow) -> String {
    let words: Vec<&str> = row.roles.iter().map(|role| role.word()).collect();
    if words.is_empty() { "revoked".to_owned() } else { words.join(",") }
}

/// Stages the claim that gives a key its roles, in place of those that it has.
fn stage(
    tx: &mut Transaction<'_>,
    public: [u8; 32],
    roles: &[Role],
    (holder, display): (HolderId, TypedId),
    proof: Option<[u8; 64]>,
    known: Option<&KeyRow>,
) -> Result<(), Failure> {
    let prev = known.map(|row| tx.ledger().claim_ref(row.claim)).transpose()?;
    let record = model::Key {
        key: Fixed(public),
        holder: display,
        first: holder.first_key(),
        roles: roles.iter().map(|role| role.word().to_owned()).collect(),
        proof: proof.map(Fixed),
    };
    let encoded = tx.put(&record)?;
    tx.claim(StagedClaim::new(&record, &encoded).replacing(prev));
    Ok(())
}

/// Finds a key of this ledger by the first digits of its id.
fn find_key(ledger: &Ledger, text: &str) -> Result<KeyRow, Failure> {
    let prefix = Prefix::parse(text)?;
    let keys = ledger.state().keys().into_iter();
    let mut found: Vec<KeyRow> = keys.filter(|row| prefix.matches(row.id.as_bytes())).collect();
    match (found.pop(), found.len()) {
        (Some(row), 0) => Ok(row),
        (None, _) => {
            let message = format!("no key of this ledger is `{text}`");
            Err(Failure::new("no-such-id", Exit::Unknown, message).hint("ledger key ls"))
        }
        (Some(_), others) => {
            let message = format!("`{text}` fits {} keys", others + 1);
            Err(Failure::new("ambiguous", Exit::Usage, message).hint("ledger key ls"))
        }
    }
}

fn trust(args: &TrustArgs, context: &Context) -> Result<Answer, Failure> {
    let id = LedgerId::from_hex(&args.id).map_err(|error| {
        Failure::usage(format!("`{}` is not a ledger's id, which is 64 hex digits", args.id)).because(error)
    })?;
    let path = context.pin(id, args.name.as_deref())?;
    context.ui.talk(format!("pinned in {}", path.display()));
    let mut answer = Answer::new("ledger.key-trust/1");
    answer.line(id);
    answer.set("ledger", id.to_hex());
    answer.set("file", path.display().to_string());
    Ok(answer)
}

fn export(args: &Export, context: &Context) -> Result<Answer, Failure> {
    let mut answer = Answer::new("ledger.key-export/1");
    if args.ssh {
        let key = context.stored_key()?;
        let line = ssh_line(&key.author(), key.name());
        answer.line(&line);
        answer.set("ssh", line);
        return Ok(answer);
    }
    let ledger = context.open()?;
    answer.set("ledger", ledger.id().to_hex());
    if args.vkey {
        let keys = ledger.vkeys();
        for key in &keys {
            answer.line(key);
        }
        answer.set("vkeys", keys);
    } else {
        let text = trust_file(ledger.id(), None);
        answer.text.clone_from(&text);
        answer.set("trust", text);
    }
    Ok(answer)
}
