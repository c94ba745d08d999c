//! Results: what an evaluation found becomes a record about weights, and what a document claims an import.
//!
//! The two are of different kinds on purpose. Who asks for evaluations never meets a claim, whatever its number.
//! Results name what they measured in their own words; those are held against the subject and bind nothing.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use crate::capture::results::{self, Claims, Document, Hint, Results};
use crate::id::object_id;
use crate::ledger::{Ledger, Signer, StagedClaim};
use crate::model::content;
use crate::model::{self, Benchmark, Binding, Eval, Import, Kind, Reporter, TypedId};

use super::{Error, Recorded, read_file};

/// Files of one evaluation, each of which is a link of its claim.
const MAX_FILES: usize = 900;

/// An evaluation to record.
#[derive(Debug)]
pub struct EvalRequest<'a> {
    /// Weights tree of the subject.
    pub subject: TypedId,
    /// Nodes of that tree, where it was just read.
    pub nodes: Vec<content::Object>,
    /// The recorded checkpoint, when there is one.
    pub of: Option<TypedId>,
    /// Benchmark by name or by a file that defines it; taken from the results when absent.
    pub benchmark: Option<String>,
    /// Result files, what lies beside them, and directories of both.
    pub results: &'a [PathBuf],
    /// `name=path` into the results, where their layout is not known.
    pub metrics: &'a [(String, String)],
    /// The attempt that it belongs to.
    pub start: Option<TypedId>,
    /// How the subject is known.
    pub binding: Binding,
    /// SHA-256 digests of the subject's files, to hold against what the results say.
    pub sums: BTreeSet<String>,
    /// Where the subject lies or lay, for the same.
    pub path: Option<&'a Path>,
    /// Whether the command that trained wrote the results about itself.
    pub by_training: bool,
    /// Whether a document of claims is imported; otherwise it is refused.
    pub takes_claims: bool,
}

/// What was read of all files.
#[derive(Default)]
struct Found {
    results: Vec<(String, Results)>,
    claims: Vec<(PathBuf, Claims)>,
    /// Bytes of what was read, each once.
    bytes: Vec<Vec<u8>>,
    beside: Vec<PathBuf>,
    warnings: Vec<String>,
}

/// Returns the files that paths stand for: of a directory its results and what lies beside them.
pub fn result_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(results::gather(path).map_err(Error::Joined)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// Returns what results say in their own words about what they measured; nothing where they cannot be read.
pub fn said_subjects(paths: &[PathBuf]) -> Vec<String> {
    let mut said = Vec::new();
    for path in result_files(paths).unwrap_or_default().iter().filter(|path| !results::is_beside(path)) {
        let Ok(bytes) = read_results(path) else { continue };
        if let Ok(Document::Results(found)) = results::read(&bytes, &path.to_string_lossy()) {
            said.extend(found.hints.iter().map(told).filter(|hint| !said.contains(hint)).collect::<Vec<_>>());
        }
    }
    said
}

fn told(hint: &Hint) -> String {
    match hint {
        Hint::Name(name) => format!("`{name}`"),
        Hint::Commit(commit) => format!("commit {}", &commit[..commit.len().min(12)]),
        Hint::Sha256(digest) => format!("sha256:{}..", &digest[..digest.len().min(12)]),
    }
}

/// Records an evaluation, or imports the claims of a document.
pub fn record_eval(
    ledger: &mut Ledger,
    request: EvalRequest<'_>,
    signer: &Signer<'_>,
) -> Result<Recorded, Error> {
    let mut found = read_all(&request)?;
    if let Some((path, claims)) = found.claims.pop() {
        let is_alone = found.claims.is_empty() && found.results.is_empty() && found.beside.is_empty();
        return match found.bytes.pop() {
            Some(bytes) if is_alone && request.takes_claims && request.metrics.is_empty() => {
                import(ledger, &request, (&path, claims, bytes), signer)
            }
            _ => Err(Error::ClaimsOnly { path }),
        };
    }
    let Found { results, bytes, beside, mut warnings, .. } = found;
    if bytes.len() + beside.len() > MAX_FILES {
        let name = request.results.first().map(|path| path.display().to_string()).unwrap_or_default();
        return Err(Error::Joined(results::Error::TooMany { name, what: "files", limit: MAX_FILES }));
    }
    for (name, results) in &results {
        warnings.extend(elsewhere(name, &results.hints, &request));
    }
    let joined = results::join(results).map_err(Error::Joined)?;
    let name = request.benchmark.clone().or_else(|| joined.as_ref()?.benchmark.clone());
    let name = name.unwrap_or_else(|| "unnamed".to_owned());
    if let Some(reason) = joined.as_ref().and_then(|joined| joined.partial.as_ref()) {
        warnings.push(format!("the evaluation is partial: {reason}"));
    }
    let mut tx = ledger.transaction();
    let definition = match Path::new(&name) {
        path if request.benchmark.is_some() && path.is_file() => Some(tx.put_blob(read_file(path)?)),
        _ => None,
    };
    let name = match definition {
        Some(_) => {
            Path::new(&name).file_stem().map_or(name.clone(), |stem| stem.to_string_lossy().into_owned())
        }
        None => name,
    };
    let tasks = joined.as_ref().map(|joined| joined.tasks.clone()).unwrap_or_default();
    let benchmark = tx.put(&Benchmark { name: name.clone(), definition, tasks })?;
    let mut links: Vec<TypedId> = bytes.into_iter().map(|bytes| tx.put_blob(bytes)).collect();
    for path in &beside {
        let mut file = File::open(path).map_err(|source| Error::Read { path: path.clone(), source })?;
        // Samples may be larger than memory, so they are stored as they are read.
        links.push(TypedId::new(Kind::Blob, tx.ledger().store().put_file(&mut file)?.blake3));
    }
    // In which order files were named says nothing.
    links.sort_unstable_by_key(|link| link.id);
    links.dedup();
    let mut record = Eval::new(request.subject, benchmark.id, request.binding, "");
    record.of = request.of;
    record.results = links;
    record.start = request.start;
    record.reported_by = request.by_training.then(|| Reporter::Training.word().to_owned());
    if let Some(joined) = joined {
        record.reported_by = joined.reported_by.map(|by| by.word().to_owned()).or(record.reported_by);
        record.metrics = joined.metrics;
        record.partial = joined.partial;
        joined.format.clone_into(&mut record.format);
        record.harness = joined.harness;
        record.decoding = joined.decoding;
        record.seeds = joined.seeds;
    }
    let encoded = tx.put(&record)?;
    let claim = StagedClaim::new(&record, &encoded);
    let summary = describe(&name, &record);
    let start = request.start;
    if tx.ledger().repeats(&claim, signer.author)? {
        return Ok(Recorded { id: encoded.id, outcome: None, warnings, summary, start });
    }
    tx.put_objects(request.nodes.into_iter().map(|(_, bytes)| bytes));
    tx.claim(claim);
    let outcome = tx.commit(signer)?;
    Ok(Recorded { id: encoded.id, outcome: Some(outcome), warnings, summary, start })
}

/// Says a few words about an evaluation.
fn describe(name: &str, record: &Eval) -> String {
    let numbers = record.metrics.iter().map(|metric| format!("{} {}", metric.name, metric.value));
    let by = if record.reported_by.is_some() { ", self-reported by the training" } else { "" };
    format!("{name}: {} ({}{by})", some_of(numbers.collect()), record.binding)
}

/// Joins the first of many words.
fn some_of(mut words: Vec<String>) -> String {
    const SHOWN: usize = 8;
    let more = words.len().saturating_sub(SHOWN);
    words.truncate(SHOWN);
    words.extend((more > 0).then(|| format!("and {more} more")));
    words.join(", ")
}

/// Reads all files, of which those in directories that failed are passed over with a word.
fn read_all(request: &EvalRequest<'_>) -> Result<Found, Error> {
    let mut found = Found::default();
    let mut known = BTreeSet::new();
    for named in request.results {
        let is_folder = named.is_dir();
        for path in result_files(std::slice::from_ref(named))? {
            if results::is_beside(&path) {
                found.beside.extend((!found.beside.contains(&path)).then_some(path));
                continue;
            }
            let bytes = read_results(&path)?;
            // The same file named twice is one.
            if !known.insert(object_id(&bytes)) {
                continue;
            }
            match read_one(&bytes, &path, request, &mut found) {
                Err(Error::Results { source: source @ results::Error::NoResults { .. }, .. })
                    if is_folder =>
                {
                    found.warnings.push(format!("passed over: {source}"));
                }
                other => {
                    other?;
                    found.bytes.push(bytes);
                }
            }
        }
    }
    if found.results.is_empty() && found.claims.is_empty() && !request.results.is_empty() {
        let name = request.results.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join(" ");
        return Err(Error::Joined(results::Error::NoneInFolder { name }));
    }
    Ok(found)
}

fn read_one(bytes: &[u8], path: &Path, request: &EvalRequest<'_>, found: &mut Found) -> Result<(), Error> {
    let failed = |source| Error::Results { path: path.to_owned(), source };
    let name = path.to_string_lossy().into_owned();
    match results::read(bytes, &name).map_err(failed)? {
        Document::Claims(claims) => found.claims.push((path.to_owned(), claims)),
        Document::Results(mut read) => {
            if !request.metrics.is_empty() {
                read.metrics = results::select(bytes, &name, request.metrics).map_err(failed)?;
                read.metrics.sort_by(|a, b| a.name.cmp(&b.name));
                let twice = read.metrics.windows(2).find(|pair| pair[0].name == pair[1].name);
                if let Some(pair) = twice {
                    let key = pair[0].name.clone();
                    return Err(failed(results::Error::Duplicate { name: "--metric".to_owned(), key }));
                }
            }
            if read.metrics.is_empty() {
                let shown = path.display();
                let what = format!("no metric was recognised in `{shown}`; name one with --metric NAME=PATH");
                found.warnings.push(what);
            }
            found.results.push((name, *read));
        }
    }
    Ok(())
}

/// Reads a file of results up to the size that is read of its kind.
fn read_results(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Read { path: path.to_owned(), source };
    // A FIFO would keep us waiting for its writer, and a device may have no end.
    if !std::fs::metadata(path).map_err(fail)?.is_file() {
        return Err(fail(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    let mut file = File::open(path).map_err(fail)?;
    let mut bytes = Vec::new();
    (&mut file).take(4).read_to_end(&mut bytes).map_err(fail)?;
    let limit = results::limit(&bytes);
    let size = file.metadata().map_err(fail)?.len();
    let too_large = || {
        let name = path.to_string_lossy().into_owned();
        Error::Results { path: path.to_owned(), source: results::Error::TooLarge { name, limit } }
    };
    if size > limit as u64 {
        return Err(too_large());
    }
    bytes.reserve_exact(size as usize);
    // It may have grown meanwhile.
    file.take(limit as u64).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() > limit { Err(too_large()) } else { Ok(bytes) }
}

/// Says where results speak of something else than the subject.
fn elsewhere(name: &str, hints: &[Hint], request: &EvalRequest<'_>) -> Vec<String> {
    let shown = |path: &Path| path.display().to_string();
    let differs = |hint: &Hint| match (hint, request.path) {
        (Hint::Sha256(digest), _) if !request.sums.is_empty() && !request.sums.contains(digest) => {
            Some(format!("`{name}` says it measured {}, which is no file of the subject", told(hint)))
        }
        (Hint::Name(said), Some(path)) if !is_called(path, said) => {
            Some(format!("`{name}` says it measured `{said}`; the subject is `{}`", shown(path)))
        }
        (Hint::Commit(said), Some(path)) if snapshot(path).is_some_and(|commit| commit != *said) => {
            Some(format!("`{name}` says it measured {}; the subject is `{}`", told(hint), shown(path)))
        }
        _ => None,
    };
    hints.iter().filter_map(differs).collect()
}

/// Whether a harness that was given this name may have meant what lies at a path.
fn is_called(path: &Path, said: &str) -> bool {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = path.canonicalize().unwrap_or_else(|_| absolute.clone());
    // Inspect puts its provider in front, as in `hf/out/step-3`.
    let names = [Some(said), said.split_once('/').map(|(_, rest)| rest)];
    names.into_iter().flatten().filter(|name| !name.is_empty()).any(|name| {
        // A relative path was one of the harness's directory, which nobody wrote down.
        let inner: PathBuf = Path::new(name)
            .components()
            .filter(|part| matches!(part, Component::Normal(_) | Component::RootDir))
            .collect();
        let cached = format!("models--{}", name.replace('/', "--"));
        let is_cached = |at: &Path| at.iter().any(|part| part.to_str() == Some(cached.as_str()));
        let is_here = |at: &Path| !inner.as_os_str().is_empty() && at.ends_with(&inner) || is_cached(at);
        is_here(&absolute) || is_here(&real)
    })
}

/// Returns the commit that a cache of the Hub has in its paths.
fn snapshot(path: &Path) -> Option<String> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    [path, &real].iter().find_map(|path| {
        let mut parts = path.iter().skip_while(|part| *part != "snapshots");
        parts.nth(1)?.to_str().map(str::to_owned)
    })
}

/// Imports what a document claims about the subject.
fn import(
    ledger: &mut Ledger,
    request: &EvalRequest<'_>,
    (path, claims, bytes): (&Path, Claims, Vec<u8>),
    signer: &Signer<'_>,
) -> Result<Recorded, Error> {
    let shown = path.display();
    let mut warnings =
        vec![format!("`{shown}` holds claims: nobody measured them here, and no evaluation is recorded")];
    if claims.without_number > 0 {
        let count = super::count(claims.without_number as u64, "value");
        warnings.push(format!("{count} of `{shown}` left out: no numbers"));
    }
    if claims.tokens > 0 {
        warnings.push(format!("the tokens in `{shown}` are not checked"));
    }
    let said = claims.claims.iter().map(|claim| {
        let on = claim.task.as_ref().map(|task| format!(" on {}", task.name)).unwrap_or_default();
        let metric = claim.metric.as_ref().map(|metric| format!("{metric} ")).unwrap_or_default();
        format!("{metric}{}{on}", claim.value)
    });
    let summary = format!("{} claims {}", claims.format, some_of(said.collect()));
    let mut subjects = vec![request.subject];
    subjects.extend(request.of);
    subjects.sort_unstable_by_key(|subject| (subject.kind.word(), subject.id));
    let mut tx = ledger.transaction();
    let document = tx.put_blob(bytes);
    let record = Import { document, subjects, format: claims.format.to_owned(), claims: claims.claims };
    let encoded = model::encode(&record)?;
    let claim = StagedClaim::new(&record, &encoded);
    let start = None;
    if tx.ledger().repeats(&claim, signer.author)? {
        return Ok(Recorded { id: encoded.id, outcome: None, warnings, summary, start });
    }
    tx.put_objects([encoded.bytes.clone()]);
    tx.put_objects(request.nodes.iter().map(|(_, bytes)| bytes.clone()));
    tx.claim(claim);
    let outcome = tx.commit(signer)?;
    Ok(Recorded { id: encoded.id, outcome: Some(outcome), warnings, summary, start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_a_path_that_ends_in_it() {
        let is = |path: &str, said: &str| is_called(Path::new(path), said);
        for said in
            ["out/step-3", "./out/step-3", "../out/step-3", "step-3", "/p/out/step-3", "hf/out/step-3"]
        {
            assert!(is("/p/out/step-3", said), "{said}");
        }
        for said in ["out/step-30", "step", "/q/out/step-3", "mockllm/model", "..", "acme/tiny"] {
            assert!(!is("/p/out/step-3", said), "{said}");
        }
        assert!(is("/hub/models--acme--tiny/snapshots/5f3c", "acme/tiny"));
        assert_eq!(snapshot(Path::new("/hub/models--a--b/snapshots/5f3c/x")).as_deref(), Some("5f3c"));
        assert_eq!(snapshot(Path::new("/p/out/step-3")), None);
    }
}
