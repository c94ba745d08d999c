//! Head files: each commit that is kept must say what the log says, signed by a log key.
//!
//! They repeat the log, so a missing one is nothing; one that says something else is damage, because whoever
//! finishes a commit would believe it.

use std::path::Path;

use crate::durable::Durable;
use crate::id::statement_id;
use crate::log::head_file::{HeadFile, MAX_HEAD_FILE};
use crate::log::note;
use crate::log::tile::parse_grouped;
use crate::log::tree;
use crate::verify::chain_text;

use super::{Error, Rebuilt, Report, is_about_content};

/// Checks all head files.
pub(super) fn check(durable: &Durable, log: Option<&Rebuilt>, report: &mut Report) -> Result<(), Error> {
    for path in durable.files_under(Path::new("log/heads"))? {
        let at = path.display().to_string();
        let Some(extends) = at.strip_prefix("log/heads/").and_then(parse_grouped) else {
            report.warn("stray", at, "it is not the name of a head file");
            continue;
        };
        let bytes = match durable.read(&path, MAX_HEAD_FILE) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => continue,
            Err(error) if is_about_content(&error) => {
                report.damaged("head-file", at, chain_text(&error));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let file = match HeadFile::decode(&bytes) {
            Ok(file) => file,
            Err(error) => {
                report.damaged("head-file", at, chain_text(&error));
                continue;
            }
        };
        if file.extends != extends {
            report.damaged("head-file", at, format!("it extends size {}", file.extends));
        } else if let Some(log) = log {
            check_one(&file, log, &at, report);
        }
    }
    Ok(())
}

fn check_one(file: &HeadFile, log: &Rebuilt, at: &str, report: &mut Report) {
    let head = file.head.head();
    // A key that lost the role later may have signed this head while it had it, and not the other way round.
    let keys = log.log_keys.at(log.first() + head.size);
    if let Err(error) = file.head.verify(&keys) {
        report.damaged("head-file", at, chain_text(&error));
        return;
    }
    if let Err(error) = note::verify_receipt(&file.receipt, head.root, &keys) {
        report.damaged("head-file", at, chain_text(&error));
        return;
    }
    if log.ledger().map(note::origin).as_ref() != Some(&head.origin) {
        report.damaged("head-file", at, "it is of another ledger");
        return;
    }
    let published = log.head.head().size;
    if file.extends >= published {
        if file.extends == published {
            report.left_over(at, "a commit that is not published yet; the next command finishes it");
        } else {
            report.warn("head-file", at, "it extends a size that the log never had");
        }
        return;
    }
    let mut leaves = file.statements.iter().zip(file.extends..);
    let differs = leaves.find(|(statement, index)| log.leaf(*index) != Some(statement_id(statement)));
    let root = tree::root_at(&log.tiles, head.size).ok();
    match differs {
        Some((_, index)) => {
            report.damaged("head-file", at, format!("its statement {index} is not the one in the log"));
        }
        None if root != Some(head.root) => report.damaged("head-file", at, "its root is not that of the log"),
        None => {}
    }
}
