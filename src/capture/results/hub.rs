//! Claims of a repository on the Hub: `.eval_results/*.yaml`, a list of entries with a data set and a value.
//!
//! Read after `huggingface_hub/_eval_results.py`. The metric is a matter of the benchmark, so an entry has none.
//! A `verifyToken` is somebody else's word about the value; it is kept with the document and not checked here.

use crate::capture::config::{Texts, texts};
use crate::model::{Claimed, Task};

use super::{Claims, Error, MAX_HEAD};

/// Whether a file may be one, by its name.
pub(super) fn is(name: &str) -> bool {
    matches!(super::extension(name).as_deref(), Some("yaml" | "yml"))
}

/// Reads the claims of a file.
pub(super) fn read(bytes: &[u8], name: &str) -> Result<Claims, Error> {
    if bytes.len() > MAX_HEAD {
        return Err(Error::TooLarge { name: name.to_owned(), limit: MAX_HEAD });
    }
    let document = texts(bytes, name)?;
    let mut claims = Claims::new("hub-eval-results");
    for entry in document.items() {
        // Everything else is another file: settings, a lock, a list of anything.
        let Some((dataset, id)) = entry.get("dataset").and_then(|set| Some((set, set.get("id")?.text()?)))
        else {
            return Err(Error::NoClaims {
                name: name.to_owned(),
                wanted: "entries with `dataset` and `value`",
            });
        };
        let Some(value) = entry.get("value").and_then(super::number) else {
            claims.without_number += 1;
            continue;
        };
        let text = |of: &Texts, key: &str| of.get(key).and_then(Texts::text).map(str::to_owned);
        let source = entry.get("source");
        claims.claims.push(Claimed {
            value,
            metric: None,
            label: text(entry, "notes"),
            task: Some(Task {
                name: text(dataset, "task_id").unwrap_or_else(|| id.to_owned()),
                dataset: Some(id.to_owned()),
                revision: text(dataset, "revision"),
                ..Task::default()
            }),
            source: source.and_then(|source| text(source, "url").or_else(|| text(source, "name"))),
            date: text(entry, "date"),
        });
        claims.tokens += usize::from(entry.get("verifyToken").is_some_and(|token| token.text().is_some()));
    }
    if claims.claims.is_empty() {
        return Err(Error::NoClaims { name: name.to_owned(), wanted: "entries with `dataset` and `value`" });
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_claims_with_their_data_set() {
        let text = "- dataset: {id: acme/verbs, task_id: verbs, revision: 5f3c}\n  value: 20.90\n  date: '2026-11-30'\n  \
                    verifyToken: eyJ\n- dataset: {id: acme/nouns}\n  value: high\n";
        let claims = read(text.as_bytes(), ".eval_results/verbs.yaml").unwrap();
        assert_eq!((claims.claims.len(), claims.without_number, claims.tokens), (1, 1, 1));
        let claim = &claims.claims[0];
        assert_eq!((&*claim.value, claim.date.as_deref()), ("20.90", Some("2026-11-30")));
        let task = claim.task.as_ref().unwrap();
        assert_eq!((&*task.name, task.dataset.as_deref()), ("verbs", Some("acme/verbs")));
    }

    #[test]
    fn other_yaml_is_refused() {
        for bad in ["a: 1\n", "[]\n", "- a\n", "- dataset: verbs\n  value: 1\n"] {
            assert!(matches!(read(bad.as_bytes(), "x.yaml"), Err(Error::NoClaims { .. })), "{bad:?}");
        }
        assert!(matches!(read(b"- {dataset: {id: a, id: b}, value: 1}\n", "x.yaml"), Err(Error::Yaml(_))));
        let large = vec![b' '; MAX_HEAD + 1];
        assert!(matches!(read(&large, "x.yaml"), Err(Error::TooLarge { .. })));
    }
}
