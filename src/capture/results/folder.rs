//! Which files of a directory are results, by the names that harnesses give, and which lie beside them.
//!
//! Samples are not read: they are evidence for whoever asks later. Files of other names are left alone, because a
//! directory of results may be one of a model, too.

use std::fs;
use std::path::{Path, PathBuf};

use super::Error;

/// Levels of directories that are looked into: harnesses make three at most.
const MAX_LEVELS: usize = 6;

/// Entries that are looked at.
const MAX_ENTRIES: usize = 100_000;

/// Returns the results in a directory and what lies beside them, sorted.
pub fn gather(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let name = dir.to_string_lossy().into_owned();
    let (mut files, mut open, mut seen) = (Vec::new(), vec![(dir.to_owned(), 0)], 0);
    while let Some((at, level)) = open.pop() {
        let fail = |source| Error::List { name: at.to_string_lossy().into_owned(), source };
        for entry in fs::read_dir(&at).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            seen += 1;
            if seen > MAX_ENTRIES {
                return Err(Error::TooMany { name, what: "files", limit: MAX_ENTRIES });
            }
            // Links are not followed: a directory may link to its own parent.
            let kind = entry.file_type().map_err(fail)?;
            if kind.is_dir() && level < MAX_LEVELS {
                open.push((entry.path(), level + 1));
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    let mut results: Vec<PathBuf> = files.iter().filter(|path| is_result(path)).cloned().collect();
    // Of the Trainer's files one holds the others.
    let whole: Vec<PathBuf> =
        results.iter().filter(|path| last(path) == "all_results.json").cloned().collect();
    results.retain(|path| {
        let is_part = matches!(last(path), "eval_results.json" | "train_results.json");
        !(is_part && whole.iter().any(|all| all.parent() == path.parent()))
    });
    if results.is_empty() {
        return Err(Error::NoneInFolder { name });
    }
    let times: Vec<String> = results.iter().filter_map(|path| time(path).map(str::to_owned)).collect();
    let beside = files
        .into_iter()
        .filter(|path| is_beside(path) && times.iter().any(|time| last(path).contains(time.as_str())));
    results.extend(beside);
    results.sort();
    Ok(results)
}

fn last(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Whether a file lies beside results and is not read: samples of lm-evaluation-harness, details of lighteval.
pub fn is_beside(path: &Path) -> bool {
    let name = last(path);
    let is = |prefix, suffix| name.starts_with(prefix) && name.ends_with(suffix);
    is("samples_", ".jsonl") || is("details_", ".parquet")
}

/// Whether a harness gives its results a name like this.
fn is_result(path: &Path) -> bool {
    let name = last(path);
    let is_log = || {
        // `2026-11-30T18-34-22-00-00_task_id.json`
        let begins = |form: &str| {
            let fits =
                |(byte, form): (u8, u8)| if form == b'0' { byte.is_ascii_digit() } else { byte == form };
            name.len() > form.len() && name.bytes().zip(form.bytes()).all(fits)
        };
        begins("0000-00-00T00-00-00")
    };
    let has = |ending: &str| name.ends_with(ending);
    has(".eval") || has(".json") && (name.starts_with("results_") || super::trainer::is(name) || is_log())
}

/// Returns the time in the name of results, which files beside them share.
fn time(path: &Path) -> Option<&str> {
    last(path).strip_prefix("results_")?.strip_suffix(".json").filter(|time| time.len() >= 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(names: &[&str]) -> Result<Vec<String>, Error> {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}").unwrap();
        }
        std::os::unix::fs::symlink(dir.path(), dir.path().join("loop")).unwrap();
        let relative = |path: PathBuf| path.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned();
        gather(dir.path()).map(|found| found.into_iter().map(relative).collect())
    }

    #[test]
    fn results_are_found_with_the_samples_of_their_time() {
        let found = gathered(&[
            "m/results_2026-11-30T18-29-20.85.json",
            "m/samples_verbs_2026-11-30T18-29-20.85.jsonl",
            "m/samples_verbs_2025-01-01T00-00-00.00.jsonl",
            "m/config.json",
            "m/tokenizer.json",
            "details/m/2026/details_verbs|0_2026-11-30T18-29-20.85.parquet",
            "README.md",
        ]);
        assert_eq!(
            found.unwrap(),
            [
                "details/m/2026/details_verbs|0_2026-11-30T18-29-20.85.parquet",
                "m/results_2026-11-30T18-29-20.85.json",
                "m/samples_verbs_2026-11-30T18-29-20.85.jsonl",
            ]
        );
    }

    #[test]
    fn logs_and_the_whole_of_the_trainers_files_are_found() {
        let found = gathered(&[
            "all_results.json",
            "eval_results.json",
            "train_results.json",
            "b/eval_results.json",
            "l/2026-11-30T18-34-22-00-00_t_id.json",
            "l/2026-11-30T18-34-22-00-00_t_id.eval",
            "l/2026.json",
        ]);
        assert_eq!(
            found.unwrap(),
            [
                "all_results.json",
                "b/eval_results.json",
                "l/2026-11-30T18-34-22-00-00_t_id.eval",
                "l/2026-11-30T18-34-22-00-00_t_id.json",
            ]
        );
        assert!(matches!(gathered(&["config.json", "r.json"]), Err(Error::NoneInFolder { .. })));
    }
}
