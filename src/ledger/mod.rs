//! A ledger: objects, log, and the state that they lead to, opened at one tree head.
//!
//! Opening reads and checks, and writes nothing under the ledger. `init.rs` makes a ledger, `transaction.rs`
//! stages objects and claims, `sequencer.rs` brings pending statements under a head, `memory.rs` keeps what
//! this user knew, `place.rs` tells a copy from the ledger, `fork.rs` makes a ledger of its own of one,
//! `parents.rs` reads the logs that such a ledger goes on from, `prove.rs` makes proofs for others, `resolve.rs`
//! turns what people type into ids, `search.rs` finds what links to a thing. Time, keys and randomness come in
//! as arguments; nothing here prints.

mod fork;
mod init;
mod memory;
pub mod parents;
mod place;
mod prove;
mod reader;
mod resolve;
mod scan;
mod search;
mod sequencer;
mod transaction;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::durable::{self, Disk, Durable, RealDisk};
use crate::id::{ClaimRef, HolderId, KeyId, LedgerId, ObjectId, StatementId, TreeHash};
use crate::log::files;
use crate::log::key::PublicKey;
use crate::log::note::{self, SignedHead};
use crate::log::statement::{self, Statement};
use crate::log::tile;
use crate::log::{Log, tree};
use crate::model::{self, Facts, Holder, Kind, Record, Role, TypedId};
use crate::state::{self, KeyRow, Place, Reason, Standing, State};
use crate::store::{self, Store};

pub use fork::{FORK, Forked, Forker, finish_fork, is_half_done};
pub use init::{Founder, Rescue, init};
pub use memory::Home;
use memory::Reading;
pub use parents::Segment;
pub use place::{Adopted, is_copy};
pub use prove::{Proven, Under};
pub use reader::Reader;
pub use resolve::{ResolveError, Wanted};
pub use search::Search;
pub use sequencer::{Pending, Sequenced};
pub use transaction::{Draft, Outcome, Signer, StagedClaim, Transaction};

/// Name of the ledger's directory.
pub const DIR: &str = ".ledger";
/// First line of the file `format`.
pub const FORMAT: &str = "ledger-format/1";
/// Records and other objects that are read whole are not larger than this.
const MAX_OBJECT: usize = crate::codec::MAX_RECORD;

/// Why a ledger cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no ledger here.
    #[error("`{}` is not a ledger", path.display())]
    NotALedger {
        /// Where one was looked for.
        path: PathBuf,
    },
    /// The format is newer than this program, or not one.
    #[error("`{}` has the format `{found}`; this program knows `{FORMAT}`", path.display())]
    Format {
        /// The ledger.
        path: PathBuf,
        /// What its `format` file says.
        found: String,
    },
    /// Fold rules of a newer program are in force.
    #[error("this ledger follows rules {found}; this program knows rules {}", state::RULES)]
    Rules {
        /// The number in force.
        found: u32,
    },
    /// A copy: another directory than the one that was made.
    #[error("`{}` is a copy of a ledger and is not written to", path.display())]
    Copied {
        /// The ledger.
        path: PathBuf,
    },
    /// This copy of the log is older than what this user has seen.
    #[error("this copy ends at statement {here}; a head of {known} statements is known")]
    Behind {
        /// Size here.
        here: u64,
        /// Size that is known.
        known: u64,
    },
    /// This log and the remembered head cannot both be right.
    #[error(
        "this log is not the one that was seen before: at size {size} its root is {found}, it was {known}"
    )]
    Fork {
        /// Size at which they differ.
        size: u64,
        /// Root here.
        found: TreeHash,
        /// Root that was seen.
        known: TreeHash,
    },
    /// The tree head is not signed by a log key of the ledger.
    #[error("the tree head of size {size} is not signed by a log key of this ledger")]
    HeadSignature {
        /// Size of the head.
        size: u64,
        /// What is wrong.
        #[source]
        source: note::Error,
    },
    /// The first statement does not open a ledger, or the head is of another one.
    #[error("the log does not begin with a genesis statement of the ledger that its head names")]
    Genesis,
    /// The statements do not lead to the head's root.
    #[error("the log's statements and its tree head disagree")]
    Log(#[source] state::Error<files::Error>),
    /// Files of the log are missing, as where a directory was copied while others wrote.
    #[error("the log is cut off: its head covers {size} statements, and only the first {whole} are here")]
    CutOff {
        /// Size of the head.
        size: u64,
        /// Statements from the first one on that are here.
        whole: u64,
        /// What is missing.
        #[source]
        source: Box<Error>,
    },
    /// The log of a ledger that this one goes on from is not there, or is not the one that it goes on from.
    #[error("the log of ledger {ledger}, which this one goes on from, cannot be used")]
    Parent {
        /// The parent.
        ledger: LedgerId,
        /// What is wrong.
        #[source]
        source: Box<Error>,
    },
    /// Each ledger goes on from another one, without an end.
    #[error("this ledger goes on from more than {} others, one after the other", parents::MAX_PARENTS)]
    TooManyParents,
    /// A fork was cut short between the two steps in which the logs change places.
    #[error("`{}` was about to become a ledger of its own, and that was cut short", path.display())]
    HalfForked {
        /// The ledger.
        path: PathBuf,
    },
    /// While this process worked, another one made a fork of the ledger: its log lies elsewhere now.
    #[error("`{}` has become another ledger meanwhile", path.display())]
    Replaced {
        /// The ledger.
        path: PathBuf,
    },
    /// The log's files.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// The store.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] durable::Error),
    /// An object is not the record that it is referred to as.
    #[error("{id} is not a readable record")]
    Record {
        /// The reference.
        id: TypedId,
        /// What is wrong.
        #[source]
        source: model::Error,
    },
    /// A statement cannot be made.
    #[error("the statement cannot be made")]
    Statement(#[from] statement::Error),
    /// A record cannot be encoded.
    #[error("the record cannot be encoded")]
    Encode(#[from] model::Error),
    /// The fold would not accept the statement, so it was not written.
    #[error("the ledger would not accept this: {reason}")]
    Refused {
        /// Why.
        reason: Reason,
    },
    /// A statement is durable, and something in the log keeps it from being ordered.
    #[error("statement {statement} is kept in `log/pending`, but the log cannot be written to")]
    Stuck {
        /// The statement.
        statement: StatementId,
        /// What is wrong.
        #[source]
        source: Box<Error>,
    },
    /// No key of this user is one of the ledger's.
    #[error("key {key} is not one of this ledger's")]
    UnknownKey {
        /// The key.
        key: KeyId,
    },
    /// No head of that size was published, or the commit that made it is not kept.
    #[error("no signed head of {size} statements is kept here")]
    NoSuchHead {
        /// The size.
        size: u64,
    },
    /// An older head is signed by a key that may not sign any more.
    #[error("the head of {size} statements is not signed by a present log key of this ledger")]
    RetiredHead {
        /// The size.
        size: u64,
        /// What is wrong.
        #[source]
        source: note::Error,
    },
    /// The receipt signature of a head is not there.
    #[error("the receipt signature of the head of {size} statements is not kept here")]
    NoReceipt {
        /// The size.
        size: u64,
    },
    /// A proof that was made does not hold.
    #[error("the proof does not hold")]
    Proof(#[from] crate::log::proof::Error),
    /// A statement that the state points to is not there.
    #[error("statement {index} cannot be read as one")]
    Unreadable {
        /// Its index.
        index: u32,
    },
}

/// One claim as it stands in the log.
#[derive(Clone, Debug)]
pub struct Stated {
    /// The claim.
    pub claim: ClaimRef,
    /// Its place.
    pub place: Place,
    /// The signing key.
    pub key: KeyId,
    /// The holder who said it.
    pub holder: HolderId,
    /// The author's clock, seconds since 1970.
    pub time: u64,
    /// What is claimed.
    pub object: TypedId,
    /// SHA-256 of the object's bytes.
    pub sha256: crate::id::Sha256,
    /// Bytes of the object.
    pub size: u64,
    /// Links, in the order of the claim.
    pub links: Vec<(String, TypedId)>,
    /// Facts.
    pub facts: Facts,
}

impl Stated {
    /// Returns what stands in a role, if anything does.
    pub fn link(&self, role: &str) -> Option<TypedId> {
        self.links.iter().find(|(name, _)| name == role).map(|(_, target)| *target)
    }

    /// Returns everything that stands in a role.
    pub fn all<'a>(&'a self, role: &'a str) -> impl Iterator<Item = TypedId> + 'a {
        self.links.iter().filter(move |(name, _)| name == role).map(|(_, target)| *target)
    }
}

/// A statement of the log with what the fold says of it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Place of the statement.
    pub index: u32,
    /// Leaf hash.
    pub id: StatementId,
    /// What the fold says.
    pub standing: Standing,
    /// Its claims; of an unreadable statement there are none.
    pub claims: Vec<Stated>,
}

/// An opened ledger.
#[derive(Debug)]
pub struct Ledger {
    root: PathBuf,
    durable: Durable,
    store: Store,
    log: Log,
    state: State,
    head: SignedHead,
    home: Home,
    is_copy: bool,
    notices: Vec<String>,
}

impl Ledger {
    /// Returns the nearest ledger at or above a directory.
    pub fn find(start: &Path) -> Option<PathBuf> {
        start.ancestors().map(|dir| dir.join(DIR)).find(|dir| dir.join("format").exists())
    }

    /// Opens the ledger whose directory is `root`, as far as its published head goes.
    pub fn open(root: &Path, home: Home) -> Result<Self, Error> {
        Self::open_on(Arc::new(RealDisk), root, home)
    }

    /// Opens a ledger on a disk of the caller's choice.
    pub fn open_on(disk: Arc<dyn Disk>, root: &Path, home: Home) -> Result<Self, Error> {
        Self::open_reading(disk, root, home, Reading::Whole)
    }

    /// Opens a ledger to ask it something: of a large State file only those pages are read that answers need.
    ///
    /// An answer stands only if [`State::is_sound`] holds of [`Self::state`] after it. Otherwise the State file
    /// is damaged, and [`Self::open`], which then folds the log anew, is to be asked instead.
    pub fn open_to_ask(root: &Path, home: Home) -> Result<Self, Error> {
        // Should keys lie in a damaged page, the whole fold is right, and any other error is found again.
        Self::open_reading(Arc::new(RealDisk), root, home.clone(), Reading::Pages)
            .or_else(|_| Self::open(root, home))
    }

    fn open_reading(disk: Arc<dyn Disk>, root: &Path, home: Home, reading: Reading) -> Result<Self, Error> {
        let not_here = || Error::NotALedger { path: root.to_owned() };
        let durable = Durable::new(Arc::clone(&disk), root, false);
        let format = match durable.read(Path::new("format"), 4096) {
            Ok(Some(format)) => String::from_utf8_lossy(&format).into_owned(),
            Ok(None) | Err(durable::Error::Io { .. }) => return Err(not_here()),
            Err(error) => return Err(error.into()),
        };
        let mut lines = format.lines();
        let first = lines.next().unwrap_or_default();
        if first != FORMAT {
            return Err(Error::Format { path: root.to_owned(), found: first.to_owned() });
        }
        let durable = Durable::new(disk, root, lines.any(|line| line == "shared yes"));
        let is_copy = place::is_copy(&durable)?;
        // Memory before the head: another process may move both forward between two reads.
        let remembered = home.remembered(&durable);
        let log = Log::new(durable.clone());
        let head = match log.head() {
            Err(files::Error::NoHead) if fork::is_half_done(&durable)? => {
                return Err(Error::HalfForked { path: root.to_owned() });
            }
            head => head?,
        };
        let mut ledger = Self {
            root: root.to_owned(),
            store: Store::new(durable.clone()),
            durable,
            log,
            state: State::new(),
            head,
            home,
            is_copy,
            notices: Vec::new(),
        };
        ledger.load_state(reading);
        ledger.fold_to_head().map_err(|error| ledger.how_far(error))?;
        if let (Some(remembered), false) = (&remembered, is_copy) {
            // Where that fails, the comparison says what is missing.
            let _ = ledger.catch_up(remembered.head().size);
        }
        ledger.compare_with_memory(remembered)?;
        ledger.save_state_when_due();
        ledger.remember();
        Ok(ledger)
    }

    /// Returns the folded state that this user keeps of a ledger, to be compared with a fold from the start.
    pub fn kept_state(root: &Path, mut home: Home) -> Option<State> {
        let durable = Durable::new(Arc::new(RealDisk), root, false);
        let head = Log::new(durable).head().ok()?;
        home.load_state(note_ledger(&head).ok()?, Reading::Whole)
    }

    /// Returns the ledger's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory that holds the ledger, against which relative paths in records are meant.
    pub fn project(&self) -> &Path {
        self.root.parent().unwrap_or(&self.root)
    }

    /// Returns the ledger's id.
    pub fn id(&self) -> LedgerId {
        self.state.ledger().unwrap_or(LedgerId::from_bytes([0; 32]))
    }

    /// Returns what holds under the head.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns the objects.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the log's files.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the disk beneath the ledger.
    pub const fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Returns the signed tree head that this view ends at.
    pub const fn head(&self) -> &SignedHead {
        &self.head
    }

    /// Returns whether the directory is a copy, which is not written to.
    pub const fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Returns what could not be remembered or used, for `-v`.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns the ledger's live log keys, as a foreign tool's verifier keys.
    pub fn vkeys(&self) -> Vec<String> {
        let origin = note::origin(self.id());
        self.log_keys().iter().map(|key| note::vkey(&origin, key)).collect()
    }

    fn log_keys(&self) -> Vec<PublicKey> {
        log_keys(&self.state)
    }

    fn load_state(&mut self, reading: Reading) {
        let Ok(origin) = note_ledger(&self.head) else { return };
        let Some(state) = self.home.load_state(origin, reading) else { return };
        let (size, head) = (state.size(), self.head.head());
        if size == 0 || size > head.size {
            return;
        }
        // The stamp must be a prefix of this log, or the file is another's and says nothing here.
        let tiles = self.log.tiles();
        if self.log.root_at(&tiles, size, head.size, head.root).is_ok_and(|root| root == state.root()) {
            self.state = state;
        }
    }

    /// Folds the statements between the state and the head, with all signatures checked.
    fn fold_to_head(&mut self) -> Result<(), Error> {
        let head = self.head.head();
        if self.state.size() == 0 && head.size > 0 {
            self.state = parents::before(&self.durable, &self.log, head.size)?;
        } else {
            self.check_parents()?;
        }
        if self.state.size() < head.size {
            parents::fold_log(&mut self.state, &self.log, head.size, head.root)?;
        }
        self.check_head()
    }

    /// Adds to an error about a missing file how much of the log is here.
    fn how_far(&self, error: Error) -> Error {
        let size = self.head.head().size;
        match error {
            Error::Files(files::Error::Tile(tile::Error::Unavailable { .. })) => {
                Error::CutOff { size, whole: self.log.whole(size), source: Box::new(error) }
            }
            error => error,
        }
    }

    fn check_head(&self) -> Result<(), Error> {
        let head = self.head.head();
        if self.state.root() != head.root || self.state.size() != head.size {
            return Err(Error::Log(state::Error::Diverges {
                size: head.size,
                expected: head.root,
                found: self.state.root(),
            }));
        }
        if self.state.ledger() != note_ledger(&self.head).ok() || !self.state.is_founded() {
            return Err(Error::Genesis);
        }
        // The statements and their signatures could be checked; who may sign the head under newer rules cannot.
        if self.state.rules() > state::RULES {
            return Err(Error::Rules { found: self.state.rules() });
        }
        self.head
            .verify(&self.log_keys())
            .map_err(|source| Error::HeadSignature { size: head.size, source })?;
        Ok(())
    }

    fn compare_with_memory(&mut self, remembered: Option<SignedHead>) -> Result<(), Error> {
        let Some(remembered) = remembered else { return Ok(()) };
        if note_ledger(&remembered).ok() != Some(self.id()) {
            return Ok(());
        }
        let (known, here) = (remembered.head(), self.head.head());
        if known.size > here.size {
            return Err(Error::Behind { here: here.size, known: known.size });
        }
        let tiles = self.log.tiles();
        let found = if known.size == here.size {
            here.root
        } else {
            self.log.root_at(&tiles, known.size, here.size, here.root)?
        };
        if found == known.root {
            Ok(())
        } else {
            Err(Error::Fork { size: known.size, found, known: known.root })
        }
    }

    /// Reads the claim at a place.
    pub fn stated(&self, place: Place) -> Result<Stated, Error> {
        let bytes = self.statement_bytes(u64::from(place.index))?;
        let unreadable = Error::Unreadable { index: place.index };
        let statement = Statement::parse(&bytes).map_err(|_| Error::Unreadable { index: place.index })?;
        claims_of(place.index, &statement).into_iter().nth(usize::from(place.position)).ok_or(unreadable)
    }

    /// Reads the first accepted claim of an object.
    pub fn claim_of(&self, id: TypedId) -> Result<Option<Stated>, Error> {
        self.state.claim(id).map(|place| self.stated(place)).transpose()
    }

    /// Reads statements with their standing, from a place on until the visitor has seen enough.
    pub fn list<E: From<Error>>(
        &self,
        from: u64,
        visit: &mut dyn FnMut(Listed) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let read = self.statements::<Stop<E>>(from, self.places(), &mut |first, entries| {
            for (entry, index) in entries.iter().zip(first as u32..) {
                let id = crate::id::statement_id(entry);
                let standing = self.state.statement(id).map_or(Standing::Unknown, |(_, standing)| standing);
                let claims =
                    Statement::parse(entry).map(|parsed| claims_of(index, &parsed)).unwrap_or_default();
                match visit(Listed { index, id, standing, claims }) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Err(Stop::Enough),
                    Err(error) => return Err(Stop::Failed(error)),
                }
            }
            Ok(())
        });
        match read {
            Ok(()) | Err(Stop::Enough) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Reads all accepted claims of some kinds, in log order: the scan that answers questions without an index.
    pub fn scan(
        &self,
        kinds: &[Kind],
        visit: &mut dyn FnMut(Stated) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.list(0, &mut |listed| {
            if listed.standing == Standing::Accepted {
                for claim in listed.claims.into_iter().filter(|claim| kinds.contains(&claim.object.kind)) {
                    visit(claim)?;
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Reads a record, whose bytes are re-hashed and must state its kind.
    pub fn record<R: Record>(&self, id: ObjectId) -> Result<R, Error> {
        let bytes = self.store.get(id, MAX_OBJECT)?;
        let id = TypedId::new(R::KIND, id);
        model::decode(&bytes).map_err(|source| Error::Record { id, source })
    }

    /// Reads the bytes of an object that is small enough to be held.
    pub fn bytes(&self, id: ObjectId) -> Result<Vec<u8>, Error> {
        Ok(self.store.get(id, MAX_OBJECT)?)
    }

    /// Returns a holder's display name, or nothing where its record was left out.
    pub fn holder_name(&self, holder: HolderId) -> Option<String> {
        let key = self.state.key(holder.first_key())?;
        let claim = self.stated(key.claim).ok()?;
        self.record::<Holder>(claim.link("holder")?.id).ok().map(|holder| holder.name)
    }

    /// Describes a key for people, as `kim (approver 4f2a)`.
    pub fn who(&self, key: KeyId) -> String {
        let short = &key.to_hex()[..4];
        let Some(row) = self.state.key(key) else { return format!("unknown key {short}") };
        let name = self.holder_name(row.holder).unwrap_or_else(|| format!("{}", row.holder)[..8].to_owned());
        let mut roles: Vec<&str> = row.roles.iter().map(|role| role.word()).collect();
        // An owner has whatever roles an owner takes; one word says that.
        roles = if row.has(Role::Owner) { vec![Role::Owner.word()] } else { roles };
        let roles = if roles.is_empty() { "no role".to_owned() } else { roles.join("+") };
        format!("{name} ({roles} {short})")
    }

    /// Returns the SHA-256 leaf hash at a place, from the tiles.
    pub fn statement_id(&self, place: u32) -> Result<StatementId, Error> {
        let (Segment { log, size, .. }, index) = self.segment(u64::from(place));
        let full = u64::from(tile::FULL);
        let (n, offset) = (index / full, (index % full) as usize);
        let beyond = || files::Error::from(tile::Error::Beyond { wanted: index, size });
        let tile = tile::Tile::at_size(tile::Level::Hashes(0), n, size).ok_or_else(beyond)?;
        let tiles = log.tiles();
        let hashes = tree::HashSource::hashes(&tiles, 0, n, tile.width()).map_err(files::Error::from)?;
        hashes
            .get(offset)
            .map(|hash| StatementId::from_bytes(*hash.as_bytes()))
            .ok_or_else(|| beyond().into())
    }

    /// Returns the claim at a place in the form that `prev` and revocations name it.
    pub fn claim_ref(&self, place: Place) -> Result<ClaimRef, Error> {
        Ok(ClaimRef { statement: self.statement_id(place.index)?, position: place.position })
    }

    fn save_state_when_due(&mut self) {
        if let Err(notice) = self.home.save_state_when_due(&self.state, self.durable.disk()) {
            self.notices.push(notice);
        }
    }

    fn remember(&mut self) {
        if let Err(notice) = self.home.remember(self.id(), &self.head, self.durable.disk()) {
            self.notices.push(notice);
        }
    }
}

/// Why a listing ended before the last statement.
enum Stop<E> {
    Enough,
    Failed(E),
}

impl<E: From<Error>> From<files::Error> for Stop<E> {
    fn from(error: files::Error) -> Self {
        Self::Failed(Error::from(error).into())
    }
}

/// Returns the ledger id in a head's origin.
fn note_ledger(head: &SignedHead) -> Result<LedgerId, Error> {
    let hex = head.head().origin.strip_prefix("lineage-ledger/").ok_or(Error::Genesis)?;
    LedgerId::from_hex(hex).map_err(|_| Error::Genesis)
}

fn log_keys(state: &State) -> Vec<PublicKey> {
    let live = state.keys().into_iter().filter(|row: &KeyRow| row.has(Role::Log));
    live.filter_map(|row| PublicKey::parse(&row.public).ok()).collect()
}

/// Turns a parsed statement into its claims; claims of newer kinds are left out.
pub(crate) fn claims_of(index: u32, statement: &Statement<'_>) -> Vec<Stated> {
    let claims = statement.payload.claims.iter().zip(0u16..);
    let understood = claims.filter_map(|(claim, position)| {
        let kind = Kind::from_word(&claim.kind)?;
        let links = claim.links.iter().filter_map(|link| {
            Some((link.role.clone().into_owned(), TypedId::new(Kind::from_word(&link.kind)?, link.id)))
        });
        Some(Stated {
            claim: ClaimRef { statement: statement.id, position },
            place: Place { index, position },
            key: statement.kid,
            holder: statement.iss,
            time: statement.iat,
            object: TypedId::new(kind, claim.object),
            sha256: claim.sha256,
            size: claim.size,
            links: links.collect(),
            facts: Facts::decode(kind, &claim.facts).unwrap_or(Facts::None),
        })
    });
    understood.collect()
}
