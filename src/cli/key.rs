//! `ledger key`: this user's keys, the keys of a ledger, and how a second user joins.
//!
//! Joining takes three steps: the new user prints a request, an owner adds it, the new user trusts the ledger
//! by an id that came from the owner and not from the directory.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::codec;
use crate::id::{HolderId, KeyId, LedgerId, Prefix};
use crate::ledger::{Ledger, StagedClaim, Transaction};
use crate::log::key::{self, KeyFile, PublicKey, SigningKey, base64, unbase64};
use crate::model::{self, Fixed, Holder, Kind, Role, TypedId};
use crate::state::KeyRow;

use super::error::Failure;
use super::settings::{Context, thumbprints};
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
    Add(Add),
    Trust(TrustArgs),
    Revoke(Revoke),
    Export(Export),
}

/// Make a key for yourself
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key new\n  LEDGER_KEY_FILE=ci.key ledger key new --name CI")]
struct New {
    /// The name that people see beside the key
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
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

/// Add somebody's key to this ledger, or change what it may do
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key add LINE\n  ledger key add LINE --roles author,evaluator,log")]
struct Add {
    /// The line that `ledger key show --request` printed, or `-` to read it
    #[arg(value_name = "LINE", required = true, num_args = 1..=2)]
    line: Vec<String>,
    /// What the keys may do: owner, author, evaluator, reviewer, approver; log goes to the log key
    #[arg(long, value_name = "ROLES", default_value = "author,log")]
    roles: String,
}

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

/// Take all roles from a key, from now on
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key revoke 4f2a91\n  ledger key ls   shows the keys")]
struct Revoke {
    /// A key of this ledger: its id or the first digits of it
    #[arg(value_name = "KEY")]
    key: String,
}

/// Print what other tools and people need to check this ledger
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key export --vkey    verifier keys of signed notes\n  \
                         ledger key export --trust   a trust file")]
#[group(required = true, multiple = false)]
struct Export {
    /// All log keys, as verifier keys of signed notes
    #[arg(long)]
    vkey: bool,
    /// A trust file that names this ledger
    #[arg(long)]
    trust: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    match &args.command {
        Command::New(args) => new(args, context),
        Command::Show(args) if args.request => request(context),
        Command::Show(_) => show(context),
        Command::Ls(_) => ls(context),
        Command::Add(args) => add(args, context),
        Command::Trust(args) => trust(args, context),
        Command::Revoke(args) => revoke(args, context),
        Command::Export(args) => export(args, context),
    }
}

fn new(args: &New, context: &Context) -> Result<Answer, Failure> {
    let name = args.name.clone().unwrap_or_else(|| context.user_name());
    let (key, path) = context.make_key(&name)?;
    let (author, _) = thumbprints(&key);
    context.ui.talk(format!("made {} for {name}; keep it secret, keep a copy", path.display()));
    let mut answer = Answer::new("ledger.key-new/1");
    answer.line(author);
    answer.set("author", author.to_hex());
    answer.set("name", name);
    answer.set("file", path.display().to_string());
    Ok(answer)
}

fn show(context: &Context) -> Result<Answer, Failure> {
    let key = context.key_file()?;
    let file = match context.filled("LEDGER_KEY") {
        Some(_) => None,
        None => context.key_path().map(|path: PathBuf| path.display().to_string()),
    };
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
    answer.set("file", file);
    Ok(answer)
}

fn ls(context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let mut answer = Answer::new("ledger.keys/1");
    for row in ledger.state().keys() {
        let name = ledger.holder_name(row.holder);
        let shown = plain(name.as_deref().unwrap_or("-"));
        let line = format!("{}  {:>5}  {:<40}  {shown}", row.id, row.since, role_words(&row));
        context.ui.row(&mut answer, "keys", line, || {
            json!({
                "key": row.id.to_hex(),
                "holder": row.holder.to_string(),
                "name": name,
                "roles": row.roles.iter().map(|role| role.word()).collect::<Vec<_>>(),
                "since": row.since,
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

/// First word of a request.
const REQUEST: &str = "ledger-key-request/1";
/// A request is two keys, two proofs and a name.
const MAX_REQUEST: usize = 4096;

/// What somebody who wants to join sends to an owner.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    author: Proven,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<Proven>,
    /// Thumbprint of the author key, by which its holder will be known.
    holder: KeyId,
    ledger: LedgerId,
    name: String,
}

/// A public key with the proof that whoever asks holds it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proven {
    key: Fixed<32>,
    proof: Fixed<64>,
}

impl Proven {
    fn make(key: &SigningKey, ledger: LedgerId, holder: HolderId) -> Self {
        let public = key.public();
        let message = key::possession_message(ledger.as_bytes(), &public, holder);
        Self { key: Fixed(*public.as_bytes()), proof: Fixed(key.sign(&message)) }
    }

    fn check(&self, ledger: LedgerId, holder: HolderId) -> Result<KeyId, key::Error> {
        let public = PublicKey::parse(&self.key.0)?;
        let message = key::possession_message(ledger.as_bytes(), &public, holder);
        public.verify(&message, &self.proof.0).map(|()| public.thumbprint())
    }
}

fn request(context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let key = context.key_file()?;
    let line = request_line(&key, ledger.id())?;
    if ledger.state().key(key.author().public().thumbprint()).is_some() {
        context.ui.talk("note: this key is in this ledger already; `ledger key show` tells its roles");
    }
    context.ui.talk("note: an owner of this ledger runs: ledger key add 'LINE'");
    let mut answer = Answer::new("ledger.key-request/1");
    answer.line(&line);
    answer.set("request", line);
    answer.set("ledger", ledger.id().to_hex());
    Ok(answer)
}

fn request_line(key: &KeyFile, ledger: LedgerId) -> Result<String, Failure> {
    let first = key.author().public().thumbprint();
    let holder = HolderId::of_first_key(first);
    let request = Request {
        author: Proven::make(key.author(), ledger, holder),
        log: key.log().map(|log| Proven::make(log, ledger, holder)),
        holder: first,
        ledger,
        name: key.name().to_owned(),
    };
    Ok(format!("{REQUEST} {}", base64(&codec::encode(&request)?)))
}

fn parse_request(line: &str) -> Result<Request, Failure> {
    let wrong = || Failure::new("bad-data", Exit::Usage, "this is not a key request");
    let encoded = line.trim().strip_prefix(REQUEST).map(str::trim).ok_or_else(|| {
        wrong().fact(format!("it would begin with `{REQUEST}`")).hint("ledger key show --request")
    })?;
    if encoded.len() > MAX_REQUEST {
        return Err(wrong().fact(format!("{} characters are more than a request has", encoded.len())));
    }
    let bytes = unbase64(encoded).map_err(|error| wrong().because(error))?;
    let request: Request = codec::decode(&bytes).map_err(|error| wrong().because(error))?;
    // The name will be shown to people for as long as the ledger lasts: what no key file holds is not taken.
    let scratch = (SigningKey::from_seed(&[1; 32]), None);
    KeyFile::new(&request.name, scratch.0, scratch.1).map_err(|error| wrong().because(error))?;
    Ok(request)
}

/// A key that is to be bound, with its roles.
struct Binding {
    public: [u8; 32],
    proof: [u8; 64],
    roles: Vec<Role>,
}

fn add(args: &Add, context: &Context) -> Result<Answer, Failure> {
    let line = match args.line.as_slice() {
        [dash] if dash == "-" => {
            let mut text = String::new();
            let mut limited = std::io::stdin().lock().take(2 * MAX_REQUEST as u64);
            limited
                .read_to_string(&mut text)
                .map_err(|error| Failure::new("io", Exit::Busy, "cannot read the request").because(error))?;
            text
        }
        words => words.join(" "),
    };
    let request = parse_request(&line)?;
    let roles = parse_roles(&args.roles)?;
    let mut ledger = context.open()?;
    let key = context.key_file()?;
    let bindings = bindings(&request, &roles, args, &ledger)?;
    let holder = HolderId::of_first_key(request.holder);
    let mut tx = ledger.transaction();
    let display = tx.put(&Holder { name: request.name.clone() })?;
    let mut changed = 0;
    for binding in &bindings {
        changed += usize::from(bind(&mut tx, binding, holder, display.id)?);
    }
    let mut answer = Answer::new("ledger.key-add/1");
    if changed > 0 {
        let outcome = tx.commit(&context.signer(&key))?;
        let index = context.ordered(outcome)?;
        answer.set("index", index);
    } else {
        context.ui.talk("note: this ledger says so already; nothing was written");
    }
    let shown = plain(&request.name);
    context.ui.talk(format!("added {shown}; {shown} now runs: ledger key trust {}", ledger.id()));
    answer.line(holder);
    answer.set("holder", holder.to_string());
    answer.set("name", request.name);
    answer.set("keys", bindings.iter().map(binding_json).collect::<Vec<_>>());
    Ok(answer)
}

fn binding_json(binding: &Binding) -> Value {
    let roles: Vec<&str> = binding.roles.iter().map(|role| role.word()).collect();
    json!({"key": key::thumbprint(&binding.public).to_hex(), "roles": roles})
}

fn parse_roles(text: &str) -> Result<BTreeSet<Role>, Failure> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let roles = words.map(|word| match Role::from_word(word) {
        Some(Role::Recovery) => Err(Failure::usage("`recovery` is given by `ledger init` only")),
        Some(role) => Ok(role),
        None => Err(Failure::usage(format!("`{word}` is not a role"))
            .fact("roles are owner, author, evaluator, reviewer, approver and log")),
    });
    roles.collect()
}

/// Checks a request's proofs and divides the roles between its keys.
fn bindings(
    request: &Request,
    roles: &BTreeSet<Role>,
    args: &Add,
    ledger: &Ledger,
) -> Result<Vec<Binding>, Failure> {
    let wrong = |message: &str| Failure::new("bad-data", Exit::Usage, message);
    if request.ledger != ledger.id() {
        return Err(wrong("the request was made for another ledger")
            .fact(format!("request  {}", request.ledger))
            .fact(format!("here     {}", ledger.id()))
            .hint("ledger key show --request"));
    }
    let holder = HolderId::of_first_key(request.holder);
    let check = |proven: &Proven| {
        proven.check(request.ledger, holder).map_err(|error| {
            wrong("the request does not prove that its sender holds the keys").because(error)
        })
    };
    if check(&request.author)? != request.holder {
        return Err(wrong("the request names another holder than its author key"));
    }
    let others: Vec<Role> = roles.iter().copied().filter(|role| *role != Role::Log).collect();
    if others.is_empty() {
        return Err(
            Failure::usage("an author key needs a role besides `log`").fact(format!("given  {}", args.roles))
        );
    }
    let author = &request.author;
    let mut bindings = vec![Binding { public: author.key.0, proof: author.proof.0, roles: others }];
    if let Some(log) = &request.log {
        check(log)?;
        if roles.contains(&Role::Log) {
            bindings.push(Binding { public: log.key.0, proof: log.proof.0, roles: vec![Role::Log] });
        }
    }
    Ok(bindings)
}

/// Stages the claim that binds a key, and returns whether there is anything to say.
fn bind(
    tx: &mut Transaction<'_>,
    binding: &Binding,
    holder: HolderId,
    display: TypedId,
) -> Result<bool, Failure> {
    let id = key::thumbprint(&binding.public);
    let known = tx.ledger().state().key(id);
    if known.as_ref().is_some_and(|row| row.roles == binding.roles) {
        return Ok(false);
    }
    if let Some(row) = known.as_ref().filter(|row| row.holder != holder) {
        let message = format!("key {id} belongs to another holder for ever");
        return Err(Failure::new("refused", Exit::Refused, message).fact(format!("holder  {}", row.holder)));
    }
    let proof = known.is_none().then_some(binding.proof);
    stage(tx, binding.public, &binding.roles, (holder, display), proof, known.as_ref())?;
    Ok(true)
}

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

fn revoke(args: &Revoke, context: &Context) -> Result<Answer, Failure> {
    let mut ledger = context.open()?;
    let key = context.key_file()?;
    let row = find_key(&ledger, &args.key)?;
    let who = plain(&ledger.who(row.id));
    let mut answer = Answer::new("ledger.key-revoke/1");
    answer.line(row.id);
    answer.set("key", row.id.to_hex());
    if row.roles.is_empty() {
        context.ui.talk(format!("note: {who} is revoked already; nothing was written"));
        return Ok(answer);
    }
    let claim = ledger.stated(row.claim)?;
    let display = claim.link("holder").unwrap_or(TypedId::new(Kind::Holder, claim.object.id));
    let mut tx = ledger.transaction();
    stage(&mut tx, row.public, &[], (row.holder, display), None, Some(&row))?;
    let index = context.ordered(tx.commit(&context.signer(&key))?)?;
    answer.set("index", index);
    context.ui.talk(format!("revoked {who}; what it said before stays accepted"));
    Ok(answer)
}

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
    let ledger = context.open()?;
    let mut answer = Answer::new("ledger.key-export/1");
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
