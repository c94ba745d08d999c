//! The log's files: tree head, bundles and tiles against each other, and the fold of all statements from the first.
//!
//! Three things must agree: the statements in the bundles, the hashes in the tiles, and the root that the head
//! signs. Where two agree, the third is named. Head files are next door.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::durable::{self, Durable};
use crate::id::{LedgerId, StatementId, TreeHash, statement_id};
use crate::ledger::{self, Segment};
use crate::log::key::PublicKey;
use crate::log::note::{self, SignedHead};
use crate::log::statement::Statement;
use crate::log::tile::{self, FULL, Level, MAX_ENTRY, Tile};
use crate::log::tree::{self, HashSource as _, MemoryTiles};
use crate::log::{Log, files};
use crate::model::{Facts, Kind, Role};
use crate::state::{self, Folded, Reason, Signatures, Standing, State};
use crate::verify::{Finding, Severity, chain_text};

use super::{Error, Rebuilt, Report, is_about_content, parents};

const MAX_BUNDLE: usize = FULL as usize * (MAX_ENTRY + 2);
const MAX_TILE: usize = FULL as usize * 32;

/// Receives folded statements and the index of the first of them.
pub(super) type Told<'a> = dyn FnMut(u64, &[Folded<'_>]) + 'a;

/// Checks head, bundles and tiles, and folds. `None` when nothing can be rebuilt from what is left.
pub(super) fn check(
    durable: &Durable,
    cached: Option<&State>,
    told: &mut Told<'_>,
    report: &mut Report,
) -> Result<Option<Rebuilt>, Error> {
    let Some(files) = check_files(durable, report)? else { return Ok(None) };
    let Some(before) = parents::check(durable, &files, cached, told, report)? else { return Ok(None) };
    let first = before.state.places();
    report.size += first;
    report.whole += first;
    let size = files.1.head().size;
    let rebuilt = fold(files, before, cached, told, report)?;
    report.statements += size;
    Ok(rebuilt)
}

/// A log whose files agree, with its head and the tree over its statements.
pub(super) type Files = (Log, SignedHead, MemoryTiles);

/// What stands before the first statement of a log: nothing, or what its parents' logs lead to.
#[derive(Default)]
pub(super) struct Before {
    pub(super) state: State,
    pub(super) log_keys: LogKeys,
    pub(super) segments: Vec<Segment>,
}

/// Checks head, bundles and tiles of one log.
pub(super) fn check_files(durable: &Durable, report: &mut Report) -> Result<Option<Files>, Error> {
    let log = Log::new(durable.clone());
    let head = match log.head() {
        Ok(head) => head,
        Err(files::Error::Disk(error)) if !is_about_content(&error) => return Err(error.into()),
        Err(error) => {
            report.damaged("head", "log/checkpoint", chain_text(&error));
            return Ok(None);
        }
    };
    let size = head.head().size;
    let before = report.findings.len();
    let leaves = read_leaves(durable, size, report)?;
    let hashes = read_hashes(durable, size, report)?;
    report.size = size;
    let same = leaves.iter().zip(&hashes).take_while(|(leaf, hash)| leaf.is_some() && leaf == hash);
    report.whole = same.count() as u64;
    if report.whole < size {
        // Older tiles may hold what the ones of this size should.
        report.whole = report.whole.max(log.whole(size));
    }
    let Some(tiles) = settle(&head, &leaves, &hashes, report) else {
        if let Some(held) = size_of_root(durable, &head)? {
            // Nothing is missing, so nothing else is accused.
            report.findings.truncate(before);
            let text = format!("it says that there are {size} statements, and its root is that of {held}");
            report.damaged("head", "log/checkpoint", text);
            (report.size, report.whole) = (held, held);
        }
        return Ok(None);
    };
    check_upper_tiles(durable, size, &tiles, report)?;
    check_names(durable, size, &log, &tiles, report)?;
    if leaves.iter().zip(0..).any(|(leaf, index)| *leaf != tiles.leaf(index)) {
        // Statements that are not the signed ones mean nothing, so nothing follows from them.
        return Ok(None);
    }
    Ok(Some((log, head, tiles)))
}

/// Reads the bytes of a tile as a log of that size has it: its own file, or the beginning of a longer one.
fn read_tile(durable: &Durable, tile: Tile, cap: usize) -> Result<Option<(String, Vec<u8>)>, durable::Error> {
    let dir = PathBuf::from(format!("log/{}.p", tile.full().path()));
    let width = |entry: &durable::Entry| entry.name.to_str()?.parse::<u16>().ok();
    let wider: BTreeSet<u16> =
        durable.list(&dir)?.iter().filter_map(width).filter(|width| *width > tile.width()).collect();
    let longer = wider.into_iter().filter_map(|width| Tile::new(tile.level(), tile.n(), width));
    for tile in [tile, tile.full()].into_iter().chain(longer) {
        let path = format!("log/{}", tile.path());
        if let Some(bytes) = durable.read(Path::new(&path), cap)? {
            return Ok(Some((path, bytes)));
        }
    }
    Ok(None)
}

/// What was read of one tile, or what is wrong with it.
type Loaded<T> = Result<T, Finding>;

fn wrong_tile(at: String, text: impl Into<String>) -> Finding {
    Finding::new(Severity::Damaged, "tile", text).at(at)
}

/// Reads a tile's file or says what is wrong with it.
fn tile_bytes(durable: &Durable, tile: Tile, cap: usize) -> Result<Loaded<(String, Vec<u8>)>, Error> {
    let at = || format!("log/{}", tile.path());
    match read_tile(durable, tile, cap) {
        Ok(Some(found)) => Ok(Ok(found)),
        Ok(None) => Ok(Err(wrong_tile(at(), "the file is missing"))),
        Err(error) if is_about_content(&error) => Ok(Err(wrong_tile(at(), chain_text(&error)))),
        Err(error) => Err(error.into()),
    }
}

/// Returns the tiles that a log of that size has in a row, as far as there are files, and the first one beyond.
///
/// The size is what a head says that nobody has checked yet, so it must not decide how much is done.
fn tiles_to_read(durable: &Durable, level: Level, size: u64) -> Result<Vec<Tile>, Error> {
    let row = Tile::at_size(level, 0, size).map(|first| first.full().path());
    let row = row.as_deref().and_then(|path| path.strip_suffix("/000")).unwrap_or("tile");
    let there = durable.files_under(&Path::new("log").join(row))?.into_iter().filter_map(|path| {
        let tile = Tile::parse(path.to_str()?.strip_prefix("log/")?).ok()?;
        (tile.level() == level).then(|| tile.n())
    });
    let beyond = there.max().map_or(0, |last| last + 1);
    Ok((0..=beyond).map_while(|n| Tile::at_size(level, n, size)).collect())
}

/// Returns the number of statements that are here, if a head of another size has the root over them.
fn size_of_root(durable: &Durable, head: &SignedHead) -> Result<Option<u64>, Error> {
    let ends = durable.files_under(Path::new("log/tile/entries"))?.into_iter().filter_map(|path| {
        let tile = Tile::parse(path.to_str()?.strip_prefix("log/")?).ok()?;
        Some(tile.n() * u64::from(FULL) + u64::from(tile.width()))
    });
    let Some(there) = ends.max().filter(|there| *there != head.head().size) else { return Ok(None) };
    let leaves = read_leaves(durable, there, &mut Report::default())?;
    Ok(whole(&leaves, head.head().root).map(|tiles| tiles.size()))
}

/// Reads a row of tiles on all cores and puts what they hold side by side, with nothing where one cannot be read.
fn read_row<T: Copy + Send>(
    tiles: &[Tile],
    read: impl Fn(Tile) -> Result<Loaded<Vec<T>>, Error> + Sync,
    report: &mut Report,
) -> Result<Vec<Option<T>>, Error> {
    let mut all = Vec::new();
    let loaded: Vec<Result<Loaded<Vec<T>>, Error>> = tiles.par_iter().map(|tile| read(*tile)).collect();
    for (tile, loaded) in tiles.iter().zip(loaded) {
        let before = all.len();
        match loaded? {
            Ok(found) => all.extend(found.into_iter().map(Some)),
            Err(finding) => report.findings.push(finding),
        }
        all.resize(before + usize::from(tile.width()), None);
    }
    Ok(all)
}

/// Returns the leaf hash of each statement in the bundles, or nothing where one cannot be read.
fn read_leaves(durable: &Durable, size: u64, report: &mut Report) -> Result<Vec<Option<StatementId>>, Error> {
    let read = |tile: Tile| {
        let (path, bytes) = match tile_bytes(durable, tile, MAX_BUNDLE)? {
            Ok(found) => found,
            Err(finding) => return Ok(Err(finding)),
        };
        let entries = if path == format!("log/{}", tile.path()) {
            tile::decode_bundle(&bytes, tile.width())
        } else {
            tile::decode_bundle_start(&bytes, tile.width())
        };
        let damaged = |error| Finding::new(Severity::Damaged, "bundle", chain_text(&error)).at(path);
        Ok(entries.map(|entries| entries.iter().map(|entry| statement_id(entry)).collect()).map_err(damaged))
    };
    read_row(&tiles_to_read(durable, Level::Entries, size)?, read, report)
}

/// Returns the leaf hashes that the tiles hold, or nothing where one cannot be read.
fn read_hashes(durable: &Durable, size: u64, report: &mut Report) -> Result<Vec<Option<StatementId>>, Error> {
    let read = |tile: Tile| {
        let hashes = hashes_of(durable, tile)?;
        let leaf = |hash: &TreeHash| StatementId::from_bytes(*hash.as_bytes());
        Ok(hashes.map(|hashes| hashes.iter().map(leaf).collect()))
    };
    read_row(&tiles_to_read(durable, Level::Hashes(0), size)?, read, report)
}

fn hashes_of(durable: &Durable, tile: Tile) -> Result<Loaded<Vec<TreeHash>>, Error> {
    let (path, bytes) = match tile_bytes(durable, tile, MAX_TILE)? {
        Ok(found) => found,
        Err(finding) => return Ok(Err(finding)),
    };
    let wanted = usize::from(tile.width()) * 32;
    let is_own = path == format!("log/{}", tile.path());
    let fits =
        if is_own { bytes.len() == wanted } else { bytes.len() > wanted && bytes.len().is_multiple_of(32) };
    let hashes = bytes.get(..wanted).filter(|_| fits).and_then(|bytes| tile::decode_hashes(tile, bytes).ok());
    Ok(hashes.ok_or_else(|| wrong_tile(path, format!("it has {} bytes", bytes.len()))))
}

/// Finds out which of statements, tiles and head are right, names the others, and returns the tree.
fn settle(
    head: &SignedHead,
    leaves: &[Option<StatementId>],
    hashes: &[Option<StatementId>],
    report: &mut Report,
) -> Option<MemoryTiles> {
    let root = head.head().root;
    let by_hashes = whole(hashes, root);
    // Where the tiles are right, nobody asks what tree the statements give; what differs is found one by one.
    let by_leaves = if by_hashes.is_none() { whole(leaves, root) } else { None };
    let differing: Vec<u64> = (0..)
        .zip(leaves.iter().zip(hashes))
        .filter(|(_, (leaf, hash))| leaf.is_some() && hash.is_some() && leaf != hash)
        .map(|(index, _)| index)
        .collect();
    let bundle = |index: u64| format!("statement {index}");
    let tile = |index: u64| {
        let tile = Tile::at_size(Level::Hashes(0), index / u64::from(FULL), head.head().size);
        tile.map_or_else(String::new, |tile| format!("log/{}", tile.path()))
    };
    match (by_hashes, by_leaves) {
        (Some(tiles), _) => {
            for index in differing {
                report.damaged("statement", bundle(index), "it is not the statement that the head covers");
            }
            Some(tiles)
        }
        (None, Some(tiles)) => {
            let wrong: BTreeSet<String> = differing.into_iter().map(tile).collect();
            for path in wrong {
                report.damaged("tile", path, "its hashes are not those of the statements");
            }
            Some(tiles)
        }
        (None, None) => {
            for index in &differing {
                let text = format!("it and the hash in `{}` differ, and the head fits neither", tile(*index));
                report.damaged("statement", bundle(*index), text);
            }
            let is_whole = leaves.iter().all(Option::is_some) && differing.is_empty();
            if is_whole {
                let text = "its root is not that of the statements and tiles, which agree with each other";
                report.damaged("head", "log/checkpoint", text);
            }
            None
        }
    }
}

/// Builds the tree over leaves, if there are all of them and they have that root.
fn whole(leaves: &[Option<StatementId>], root: TreeHash) -> Option<MemoryTiles> {
    let mut tiles = MemoryTiles::new();
    for leaf in leaves {
        tiles.push((*leaf)?);
    }
    (tree::root_at(&tiles, tiles.size()).ok() == Some(root)).then_some(tiles)
}

/// Compares the tiles above the leaves with the tree.
fn check_upper_tiles(
    durable: &Durable,
    size: u64,
    tiles: &MemoryTiles,
    report: &mut Report,
) -> Result<(), Error> {
    for tile in Tile::all(size) {
        let Level::Hashes(level @ 1..) = tile.level() else { continue };
        let found = match hashes_of(durable, tile)? {
            Ok(found) => found,
            Err(finding) => {
                report.findings.push(finding);
                continue;
            }
        };
        if tiles.hashes(level, tile.n(), tile.width()).ok() != Some(found) {
            let text = "its hashes are not those of the tiles below";
            report.damaged("tile", format!("log/{}", tile.path()), text);
        }
    }
    Ok(())
}

/// Looks at every other file under `tile/`: shorter forms of a tile hold its beginning, longer ones belong to a
/// commit that is not published yet, and nothing else has business there.
fn check_names(
    durable: &Durable,
    size: u64,
    log: &Log,
    tiles: &MemoryTiles,
    report: &mut Report,
) -> Result<(), Error> {
    let is_unfinished = matches!(log.head_file(size), Ok(Some(_)));
    // Whoever copies a directory while others write may read the head first.
    let is_copy = ledger::is_copy(durable).unwrap_or(false);
    for path in durable.files_under(Path::new("log/tile"))? {
        let text = path.display().to_string();
        let tile = text.strip_prefix("log/").and_then(|path| Tile::parse(path).ok());
        let Some(tile) = tile else {
            report.warn("stray", text, "it is not the path of a tile");
            continue;
        };
        let cap = if tile.level() == Level::Entries { MAX_BUNDLE } else { MAX_TILE };
        match Tile::at_size(tile.level(), tile.n(), size) {
            Some(current) if current == tile => {}
            Some(current) if tile.width() < current.width() => {
                // Readers of an older head may still ask for it, and must get what they were promised.
                let older = match durable.read(&path, cap) {
                    Ok(older) => older,
                    Err(error) if is_about_content(&error) => None,
                    Err(error) => return Err(error.into()),
                };
                if !older.is_some_and(|older| is_of_tree(tile, &older, tiles)) {
                    report.damaged("tile", text, "it is not what the head covers");
                }
            }
            _ if is_unfinished => report.left_over(text, "written by a commit that is not published yet"),
            _ if is_copy => report.left_over(text, "written while this copy was made, after its head"),
            _ => report.damaged("tile", text, "it is beyond the head, which no commit explains"),
        }
    }
    Ok(())
}

/// Whether a tile's file holds what the signed tree has there.
///
/// It is held against the tree and not against the longer file, so that one damaged file accuses no other.
fn is_of_tree(tile: Tile, bytes: &[u8], tiles: &MemoryTiles) -> bool {
    match tile.level() {
        Level::Entries => {
            let hashes = tiles.hashes(0, tile.n(), tile.width());
            let entries = tile::decode_bundle(bytes, tile.width());
            hashes.is_ok_and(|hashes| {
                entries.is_ok_and(|entries| {
                    let leaves = entries.iter().map(|entry| *statement_id(entry).as_bytes());
                    leaves.eq(hashes.iter().map(|hash| *hash.as_bytes()))
                })
            })
        }
        Level::Hashes(level) => {
            let hashes = tiles.hashes(level, tile.n(), tile.width());
            hashes.is_ok_and(|hashes| tile::decode_hashes(tile, bytes).is_ok_and(|found| found == hashes))
        }
    }
}

/// Folds all statements with all signatures, and checks who signed the head.
pub(super) fn fold(
    (log, head, tiles): Files,
    before: Before,
    cached: Option<&State>,
    told: &mut Told<'_>,
    report: &mut Report,
) -> Result<Option<Rebuilt>, Error> {
    let size = head.head().size;
    let Before { mut state, mut log_keys, segments } = before;
    let base = state.places();
    let folded = log.statements_together::<files::Error>(size, 0, &mut |first, entries| {
        let mut root_at = |size| tree::root_at(&tiles, size).map_err(files::Error::from);
        let mut next = base + first;
        let mut note = |folded: &[Folded<'_>]| {
            for (one, index) in folded.iter().zip(next..) {
                note_standing(index, one, cached, report);
                if let (Standing::Accepted, Some(statement)) = (one.standing, &one.statement) {
                    log_keys.note(index, statement);
                }
            }
            told(next, folded);
            next += folded.len() as u64;
            Ok(())
        };
        match state::advance_telling(&mut state, entries, Signatures::Check, &mut root_at, &mut note) {
            Err(state::Error::Root { source, .. }) => Err(source),
            // Only a comparison with a head diverges, and none is made here.
            Ok(()) | Err(_) => Ok(()),
        }
    });
    match folded {
        Ok(()) => {}
        Err(files::Error::Disk(error)) if !is_about_content(&error) => return Err(error.into()),
        Err(error) => {
            report.damaged("log", "log/tile/entries", chain_text(&error));
            return Ok(None);
        }
    }
    let origin = state.ledger().map(note::origin);
    if origin.as_ref() != Some(&head.head().origin) || !state.is_founded() {
        let text = "the log does not begin with a genesis of the ledger that the head names";
        report.damaged("genesis", "log/checkpoint", text);
    }
    let live: Vec<PublicKey> = state
        .keys()
        .into_iter()
        .filter(|row| row.has(Role::Log))
        .filter_map(|row| PublicKey::parse(&row.public).ok())
        .collect();
    if let Err(error) = head.verify(&live) {
        report.damaged("head", "log/checkpoint", chain_text(&error));
    }
    Ok(Some(Rebuilt { head, tiles, state, log_keys, log, before: segments }))
}

fn note_standing(index: u64, one: &Folded<'_>, cached: Option<&State>, report: &mut Report) {
    let standing = one.standing;
    if let Standing::Rejected(
        reason @ (Reason::BadForm | Reason::BadSignature | Reason::ForeignLedger | Reason::OtherHistory),
    ) = standing
    {
        // No honest writer orders such a statement. It counts for nothing, so nothing is damaged by it.
        let text = format!("a writer put it into the log although it is {reason}");
        report.warn("rejected", format!("statement {index}"), text);
    }
    if let Some((at, known)) = cached.and_then(|state| state.statement(one.id))
        && known != standing
        && u64::from(at) == index
    {
        let text = format!("the folded state in the cache says {known}, the log says {standing}");
        report.warn("state-file", format!("statement {index}"), text);
    }
}

/// What statements have said about the role `log`, in their order.
#[derive(Default)]
pub(super) struct LogKeys {
    said: Vec<(u64, PublicKey, bool)>,
}

impl LogKeys {
    /// Notes which keys an accepted statement gives the role, and which it leaves without.
    fn note(&mut self, index: u64, statement: &Statement<'_>) {
        let claims = statement.payload.claims.iter().filter(|claim| claim.kind == Kind::Key.word());
        self.said.extend(claims.filter_map(|claim| match Facts::decode(Kind::Key, &claim.facts) {
            Ok(Facts::Key { key, roles, .. }) => {
                Some((index, PublicKey::parse(&key).ok()?, roles.contains(&Role::Log)))
            }
            _ => None,
        }));
    }

    /// Returns the keys that may sign a head over the statements below a place: those with the role after them.
    pub(super) fn at(&self, size: u64) -> Vec<PublicKey> {
        let mut keys: Vec<PublicKey> = Vec::new();
        for (_, key, may_order) in self.said.iter().take_while(|(index, ..)| *index < size) {
            keys.retain(|other| other != key);
            if *may_order {
                keys.push(*key);
            }
        }
        keys
    }
}

impl Rebuilt {
    /// Returns the place of the own log's first statement.
    pub(super) fn first(&self) -> u64 {
        self.before.last().map_or(0, |last| last.first + last.size)
    }

    /// Returns the ledger.
    pub(super) fn ledger(&self) -> Option<LedgerId> {
        self.state.ledger()
    }

    /// Returns a finding's place for one statement.
    pub(super) fn leaf(&self, index: u64) -> Option<StatementId> {
        self.tiles.leaf(index)
    }

    /// Says that a claim in the log is contradicted.
    pub(super) fn claim_finding(index: u32, text: String) -> Finding {
        Finding::new(Severity::Damaged, "claim-differs", text).at(format!("statement {index}"))
    }
}
