//! How somebody joins: a line that proves two keys, and the owner who adds them.
//!
//! Joining takes three steps: the new user prints a request, an owner adds it, the new user trusts the ledger
//! by an id that came from the owner and not from the directory.

use std::collections::BTreeSet;
use std::io::Read as _;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::codec;
use crate::id::{HolderId, KeyId, LedgerId};
use crate::ledger::{Ledger, Transaction};
use crate::log::key::{self, PublicKey, SigningKey, base64, unbase64};
use crate::log::key_file::KeyFile;
use crate::model::{Fixed, Holder, Role, TypedId};
use crate::state::KeyRow;

use super::super::error::Failure;
use super::super::settings::Context;
use super::super::ui::{Answer, Exit, plain};
use super::stage;

/// Add somebody's key to this ledger, or change what it may do
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger key add LINE\n  ledger key add LINE --roles author,evaluator,log")]
pub(super) struct Add {
    /// The line that `ledger key show --request` printed, or `-` to read it
    #[arg(value_name = "LINE", required = true, num_args = 1..=2)]
    line: Vec<String>,
    /// What the keys may do: owner, author, evaluator, reviewer, approver; log goes to the log key
    #[arg(long, value_name = "ROLES", default_value = "author,log")]
    roles: String,
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
    /// Where the holder is known already: a key of the holder agrees that the new keys are the holder's, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consent: Option<Consent>,
}

/// A key of a holder that agrees to new keys of the same holder.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Consent {
    /// Public key of the holder.
    key: Fixed<32>,
    /// What it signs is what the new author key, then the new log key, sign as their proofs.
    proofs: Vec<Fixed<64>>,
}

/// A public key with the proof that whoever asks holds it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proven {
    key: Fixed<32>,
    proof: Fixed<64>,
}

impl Consent {
    fn make(old: &SigningKey, new: &KeyFile, ledger: LedgerId, holder: HolderId) -> Self {
        let keys = [Some(new.author()), new.log()];
        let proofs = keys.into_iter().flatten().map(|key| {
            let message = key::possession_message(ledger.as_bytes(), &key.public(), holder);
            Fixed(old.sign(&message))
        });
        Self { key: Fixed(*old.public().as_bytes()), proofs: proofs.collect() }
    }

    /// Checks that a key with roles that this ledger knows as the holder's has agreed to both keys.
    fn check(&self, request: &Request, ledger: &Ledger) -> Result<(), key::Error> {
        let public = PublicKey::parse(&self.key.0)?;
        let row = ledger.state().key(public.thumbprint());
        let holder = HolderId::of_first_key(request.holder);
        let speaks = |row: &KeyRow| {
            let is_other = |role: &Role| !matches!(role, Role::Log | Role::Recovery);
            row.holder == holder && row.roles.iter().any(is_other)
        };
        let keys: Vec<&Proven> =
            [Some(&request.author), request.log.as_ref()].into_iter().flatten().collect();
        let not_by = key::Error::Signature { key: public.thumbprint() };
        if !row.as_ref().is_some_and(speaks) || keys.len() != self.proofs.len() {
            return Err(not_by);
        }
        for (new, proof) in keys.iter().zip(&self.proofs) {
            let new = PublicKey::parse(&new.key.0)?;
            let message = key::possession_message(request.ledger.as_bytes(), &new, holder);
            public.verify(&message, &proof.0)?;
        }
        Ok(())
    }
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

pub(super) fn request(context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let key = context.key_file()?;
    let line = request_line(&key, ledger.id(), None)?;
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

pub(super) fn request_line(
    key: &KeyFile,
    ledger: LedgerId,
    of: Option<(&KeyFile, HolderId)>,
) -> Result<String, Failure> {
    let own = HolderId::of_first_key(key.author().public().thumbprint());
    let holder = of.map_or(own, |(_, holder)| holder);
    let consent = of.map(|(old, holder)| Consent::make(old.author(), key, ledger, holder));
    let request = Request {
        author: Proven::make(key.author(), ledger, holder),
        log: key.log().map(|log| Proven::make(log, ledger, holder)),
        holder: holder.first_key(),
        ledger,
        name: key.name().to_owned(),
        consent,
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

pub(super) fn add(args: &Add, context: &Context) -> Result<Answer, Failure> {
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
    let mut bindings = bindings(&request, &roles, args, &ledger)?;
    let signs = ledger.state().key(key.author().public().thumbprint());
    if signs.is_some_and(|row| row.has(Role::Recovery)) {
        bindings = only_owner(bindings, context)?;
    }
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

/// Leaves what a recovery key may say: that somebody is an owner.
fn only_owner(bindings: Vec<Binding>, context: &Context) -> Result<Vec<Binding>, Failure> {
    let owners: Vec<Binding> =
        bindings.into_iter().filter(|binding| binding.roles.contains(&Role::Owner)).collect();
    if owners.is_empty() {
        return Err(Failure::new("refused", Exit::Refused, "a recovery key appoints owners and nobody else")
            .hint("ledger key add LINE --roles owner,author,evaluator,reviewer,approver"));
    }
    let roles: Vec<&str> = owners.iter().flat_map(|one| &one.roles).map(|role| role.word()).collect();
    context.ui.talk(format!(
        "note: the new owner then adds the log key: \
         ledger key add \"$(ledger key show --request)\" --roles {},log",
        roles.join(",")
    ));
    Ok(owners)
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
    let is_first = check(&request.author)? == request.holder;
    match &request.consent {
        Some(consent) => consent.check(request, ledger).map_err(|error| {
            wrong("no key of the holder agrees that the new keys are the holder's").because(error)
        })?,
        None if is_first => {}
        None => return Err(wrong("the request names another holder than its author key")),
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
