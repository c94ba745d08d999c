//! Claims of a model card: the list `model-index` in the YAML that heads a `README.md`.
//!
//! Read after `ModelCardData` and `EvalResult` of huggingface_hub 2.4. A card names no weights, and anybody can
//! edit it: its numbers are claims, never results.

use crate::capture::config::{Texts, texts};
use crate::model::{Claimed, Task};

use super::{Claims, Error, MAX_HEAD};

/// Whether a file is a card, by its name.
pub(super) fn is(name: &str) -> bool {
    matches!(super::extension(name).as_deref(), Some("md" | "markdown"))
}

/// Reads the claims of a card.
pub(super) fn read(bytes: &[u8], name: &str) -> Result<Claims, Error> {
    let none = || Error::NoClaims { name: name.to_owned(), wanted: "a `model-index` in its head" };
    let head = head(bytes).ok_or_else(none)?;
    if head.len() > MAX_HEAD {
        return Err(Error::TooLarge { name: name.to_owned(), limit: MAX_HEAD });
    }
    let head = texts(head, name)?;
    let models = head.get("model-index").ok_or_else(none)?;
    let mut claims = Claims::new("model-card");
    for result in models.items().iter().filter_map(|model| model.get("results")).flat_map(Texts::items) {
        let text = |part: &str, key: &str| result.get(part)?.get(key)?.text().map(str::to_owned);
        let dataset = text("dataset", "type");
        let task = text("dataset", "name").or_else(|| dataset.clone()).map(|name| Task {
            name,
            dataset,
            subset: text("dataset", "config"),
            split: text("dataset", "split"),
            revision: text("dataset", "revision"),
            ..Task::default()
        });
        for metric in result.get("metrics").map_or(&[][..], Texts::items) {
            let Some(value) = metric.get("value").and_then(super::number) else {
                claims.without_number += 1;
                continue;
            };
            let of = |key: &str| metric.get(key).and_then(Texts::text).map(str::to_owned);
            claims.claims.push(Claimed {
                value,
                metric: of("type"),
                label: of("name"),
                task: task.clone(),
                source: text("source", "url").or_else(|| text("source", "name")),
                date: None,
            });
        }
    }
    if claims.claims.is_empty() { Err(none()) } else { Ok(claims) }
}

/// Returns what stands between the first line `---` and the next one.
fn head(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().filter(|line| line.trim_ascii_end() == b"---")?;
    let mut end = first.len();
    for line in lines {
        if line.trim_ascii_end() == b"---" {
            return Some(&bytes[first.len()..end]);
        }
        end += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "---\r\nlicense: mit\r\nmodel-index:\r\n- name: m\r\n  results:\r\n  - task: {type: t}\r\n    \
        dataset: {name: Verbs, type: acme/verbs, config: en, split: test, revision: 5f3c}\r\n    metrics:\r\n    \
        - {type: accuracy, value: 0.50, name: 1-shot}\r\n    - {type: ppl, value: .inf}\r\n    \
        - {type: rank, value: first}\r\n    source: {name: Own, url: 'https://results.example/verbs'}\r\n---\r\n# m\r\n";

    #[test]
    fn numbers_are_claimed_with_what_they_are_about() {
        let claims = read(CARD.as_bytes(), "README.md").unwrap();
        let rows: Vec<_> =
            claims.claims.iter().map(|c| (c.metric.as_deref(), &*c.value, c.label.as_deref())).collect();
        assert_eq!(rows, [(Some("accuracy"), "0.50", Some("1-shot")), (Some("ppl"), "Infinity", None)]);
        assert_eq!(claims.without_number, 1);
        let text = |text: &str| Some(text.to_owned());
        let task = Task {
            name: "Verbs".into(),
            dataset: text("acme/verbs"),
            subset: text("en"),
            split: text("test"),
            revision: text("5f3c"),
            ..Task::default()
        };
        assert_eq!(
            (&claims.claims[0].task, &claims.claims[0].source),
            (&Some(task), &text("https://results.example/verbs"))
        );
    }

    #[test]
    fn a_text_without_claims_is_refused() {
        for bad in
            ["", "# m\n", "---\nlicense: mit\n", "---\nlicense: mit\n---\n", "---\nmodel-index: []\n---\n"]
        {
            assert!(matches!(read(bad.as_bytes(), "README.md"), Err(Error::NoClaims { .. })), "{bad:?}");
        }
        let twice = CARD.replace("license: mit", "license: mit\r\nlicense: mit");
        assert!(matches!(read(twice.as_bytes(), "README.md"), Err(Error::Yaml(_))));
        let large = CARD.replace("license: mit", &format!("license: '{}'", "x".repeat(MAX_HEAD)));
        assert!(matches!(read(large.as_bytes(), "README.md"), Err(Error::TooLarge { .. })));
    }
}
