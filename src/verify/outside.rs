//! What only the world outside the ledger can answer: whether a repository holds the commit, and whether data
//! and base models still lie where they were frozen, unchanged.
//!
//! Both are asked for by name. Paths come from the private record of the plan, which may have been left out.

use std::path::Path;

use crate::acts::open_private_path;
use crate::capture::code::{self, AllowedSigners, CommitCheck, Signature};
use crate::capture::walk::{self, Options};
use crate::id::{Digests, ObjectId};
use crate::ledger::{Ledger, Stated};
use crate::model::{Checkpoint, Code, Dataset, Kind, Model, Plan, Private, TypedId};

use super::statement::chain_text;
use super::{Error, Finding, Report, Severity, Short};

/// Asks a repository for the commit of a plan.
pub(super) fn check_commit(repo: &Path, code: &Code) -> Finding {
    let commit = code.commit.get(..8).unwrap_or(&code.commit);
    let repo_name = repo.display();
    let (severity, slug, text) = match code::verify(repo, &code.commit, &code.tree) {
        Ok(CommitCheck::Match) => (Severity::Ok, "repo", format!("`{repo_name}` holds commit {commit}")),
        Ok(CommitCheck::OtherTree { found }) => {
            (Severity::Fail, "wrong-commit", format!("commit {commit} in `{repo_name}` has the tree {found}"))
        }
        Ok(CommitCheck::Damaged) => {
            (Severity::Fail, "wrong-commit", format!("commit {commit} in `{repo_name}` is damaged"))
        }
        Ok(CommitCheck::Missing { shallow }) => {
            let hint = if shallow { "; the repository is shallow" } else { "" };
            (Severity::Unknown, "no-commit", format!("`{repo_name}` does not hold commit {commit}{hint}"))
        }
        Err(error) => (Severity::Unknown, "no-commit", chain_text(&error)),
    };
    Finding::new(severity, slug, text)
}

/// Asks for the signature of a plan's commit, by one of the keys that may sign commits.
pub(super) fn check_signature(repo: &Path, code: &Code, allowed: &AllowedSigners) -> Finding {
    let commit = code.commit.get(..8).unwrap_or(&code.commit);
    let (severity, slug, text) = match code::verify_signature(repo, &code.commit, allowed) {
        Ok(Some(Signature::Good { principals, fingerprint })) => (
            Severity::Ok,
            "commit-signed",
            format!("commit {commit} is signed by {principals}, {fingerprint}"),
        ),
        Ok(Some(Signature::Absent)) => {
            (Severity::Fail, "commit-unsigned", format!("commit {commit} bears no signature"))
        }
        Ok(Some(Signature::Wrong { reason })) => {
            (Severity::Fail, "wrong-signature", format!("the signature of commit {commit}: {reason}"))
        }
        Ok(Some(Signature::Unknown { reason })) => {
            (Severity::Unknown, "commit-signer", format!("commit {commit}: {reason}"))
        }
        Ok(None) => {
            let text = format!(
                "`{}` does not hold commit {commit} whole, so its signature is unknown",
                repo.display()
            );
            (Severity::Unknown, "commit-signer", text)
        }
        Err(error) => (Severity::Unknown, "commit-signer", chain_text(&error)),
    };
    Finding::new(severity, slug, text)
}

/// Reads data and base models again where they were.
pub(super) fn check_data(
    ledger: &Ledger,
    plan: &Plan,
    stated: &Stated,
    progress: &(dyn Fn(u64) + Sync),
    report: &mut Report,
) -> Result<(), Error> {
    let private = stated.link("private").and_then(|id| ledger.record::<Private>(id.id).ok());
    let inputs = plan.data.iter().map(|input| ("data", input));
    for (word, (role, id)) in inputs.chain(plan.base.iter().map(|input| ("base", input))) {
        let paths = private.as_ref().map(|private| &private.paths);
        let path = paths.and_then(|paths| paths.get(&format!("{word} {role}")));
        let finding = match (path, content(ledger, *id)) {
            // What was named as a record has no path; its content is what the record says.
            (None, _) if private.is_some() => Finding::new(
                Severity::Skip,
                "data",
                format!("{word} `{role}` was named by its id, not by a path"),
            ),
            (None, _) => {
                let text = format!("where {word} `{role}` lay is not recorded");
                Finding::new(Severity::Unknown, "not-available", text)
            }
            (_, None) => continue,
            (Some(path), Some(expected)) => {
                let path = open_private_path(path, ledger.project());
                match walk::observe(&path, &Options::new(Digests::Blake3), progress) {
                    Ok(tree) if tree.id == expected => {
                        Finding::new(Severity::Ok, "data", format!("{word} `{role}` is as frozen"))
                    }
                    Ok(tree) => {
                        let (recorded, found) = (Short(expected), Short(tree.id));
                        let text = format!("{word} `{role}`: recorded {recorded}, found {found}");
                        Finding::new(Severity::Fail, "wrong-bytes", text)
                    }
                    Err(walk::Error::Missing { .. }) => {
                        let text = format!("{word} `{role}` is no longer there");
                        Finding::new(Severity::Unknown, "not-available", text)
                    }
                    Err(error) => return Err(error.into()),
                }
                .at(path.display().to_string())
            }
        };
        report.add(finding.on(*id));
    }
    Ok(())
}

/// Returns the digest of everything in an input; nothing where its record cannot be read, which is said elsewhere.
fn content(ledger: &Ledger, id: TypedId) -> Option<ObjectId> {
    match id.kind {
        Kind::Dataset => ledger.record::<Dataset>(id.id).ok().map(|data| data.root.id),
        Kind::Model => ledger.record::<Model>(id.id).ok().map(|base| base.root.id),
        Kind::Checkpoint => ledger.record::<Checkpoint>(id.id).ok().map(|checkpoint| checkpoint.full.id),
        _ => None,
    }
}
