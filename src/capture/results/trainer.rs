//! Results that say little: metrics of the Hugging Face `Trainer`, and any other JSON.
//!
//! The training process writes the Trainer's files about itself (`Trainer.save_metrics` of transformers 5). They
//! name neither weights nor data nor a version.

use crate::model::{Metric, Reporter};

use super::json::Json;
use super::{Hint, Results, is_hex};

/// Whether a file has one of the names that the Trainer gives.
pub(super) fn is(name: &str) -> bool {
    matches!(
        super::file_name(name),
        "all_results.json"
            | "eval_results.json"
            | "train_results.json"
            | "test_results.json"
            | "predict_results.json"
    )
}

/// Reads metrics of the Trainer.
pub(super) fn read(json: &Json) -> Results {
    let mut results = Results::new("hf-trainer");
    results.reported_by = Some(Reporter::Training);
    for (key, value) in json.members() {
        let (part, rest) = key.split_once('_').unwrap_or(("", key));
        // Timings, counts and how far training was are no results.
        let is_other = matches!(&**key, "epoch" | "num_input_tokens_seen" | "total_flos" | "step")
            || rest.ends_with("runtime")
            || rest.ends_with("_per_second")
            || matches!(rest, "samples" | "tokens" | "steps");
        if let (Json::Number(value), false) = (value, is_other) {
            let n = json.get(&format!("{part}_samples")).and_then(Json::count);
            results.metrics.push(Metric {
                name: key.to_string(),
                value: value.to_string(),
                n,
                ..Metric::default()
            });
        }
    }
    results
}

/// Members that describe an evaluation and measure nothing.
const NOT_METRICS: [&str; 9] =
    ["n", "samples", "num_samples", "eval_samples", "limit", "seed", "v", "step", "version"];

/// Reads any JSON object: `metrics`, or else its own numbers.
pub(super) fn read_any(json: &Json) -> Results {
    let mut results = Results::new("json");
    let n = ["n", "samples", "num_samples", "eval_samples"].iter().find_map(|key| json.get(key)?.count());
    let members = match json.get("metrics") {
        Some(Json::Object(metrics)) => metrics,
        _ => json.members(),
    };
    let number =
        |name: &str| members.iter().find(|(key, _)| **key == *name).and_then(|(_, value)| value.number());
    for (name, value) in members {
        let Json::Number(value) = value else { continue };
        let is_stderr = name.strip_suffix("_stderr").is_some_and(|of| number(of).is_some());
        if NOT_METRICS.contains(&&**name) || is_stderr {
            continue;
        }
        let stderr = number(&format!("{name}_stderr")).map(str::to_owned);
        let (name, value) = (name.to_string(), value.to_string());
        results.metrics.push(Metric { name, value, stderr, n, ..Metric::default() });
    }
    results.partial = partial(json);
    results.benchmark = json.text_at("benchmark").or_else(|| json.text_at("task")).map(str::to_owned);
    if let Some(seed) = json.get("seed").and_then(Json::number) {
        results.seeds.insert("seed".to_owned(), seed.to_owned());
    }
    for subject in ["checkpoint", "subject", "model", "weights"].iter().filter_map(|key| json.get(key)) {
        let sum = subject.text_at("sha256").filter(|digest| is_hex(digest, 64));
        results.hints.extend(sum.map(|digest| Hint::Sha256(digest.to_owned())));
        let path = subject.text().or_else(|| subject.text_at("path")).filter(|path| path.contains('/'));
        results.hints.extend(path.map(|path| Hint::Name(path.to_owned())));
    }
    results
}

/// Says why an evaluation is partial. Harnesses write the limit at the top or among their settings.
fn partial(json: &Json) -> Option<String> {
    [&["limit"][..], &["config", "limit"], &["config_general", "max_samples"]].iter().find_map(|path| {
        let limit = json.path(path)?.number()?;
        Some(format!("{} {limit}", path.last()?))
    })
}

#[cfg(test)]
mod tests {
    use super::super::json::{Keep, parse};
    use super::*;

    fn json(text: &str) -> Json {
        parse(text.as_bytes(), "r.json", Keep::NoSamples).unwrap()
    }

    fn rows(results: &Results) -> Vec<(&str, &str, Option<&str>, Option<u64>)> {
        results.metrics.iter().map(|m| (&*m.name, &*m.value, m.stderr.as_deref(), m.n)).collect()
    }

    #[test]
    fn metrics_keep_their_digits() {
        let sha = "ca8a79ceaacb1f05387aaf9d87fa7602c9d21b955ceee16407a737cc968f4f9a";
        let results = read_any(&json(&format!(
            r#"{{"task": "digits", "n": 449, "limit": null, "note": "accuracy: NaN", "seed": 3,
            "checkpoint": {{"step": 300, "sha256": "{sha}", "blake3": "not one"}},
            "metrics": {{"loss": 1.50, "accuracy": 0.1000000000000000055511151231257827, "accuracy_stderr": 1e-6,
                         "worst": NaN, "best": Infinity, "name": "x", "ok": true}}}}"#
        )));
        let n = Some(449);
        assert_eq!(
            rows(&results),
            [
                ("loss", "1.50", None, n),
                ("accuracy", "0.1000000000000000055511151231257827", Some("1e-6"), n),
                ("worst", "NaN", None, n),
                ("best", "Infinity", None, n),
            ]
        );
        assert_eq!(results.hints, [Hint::Sha256(sha.into())]);
        assert_eq!((results.benchmark.as_deref(), results.partial), (Some("digits"), None));
        assert_eq!((results.seeds["seed"].as_str(), results.reported_by), ("3", None));
    }

    #[test]
    fn a_limit_makes_it_partial() {
        let partial = |text: &str| read_any(&json(text)).partial;
        assert_eq!(partial(r#"{"limit": 100, "metrics": {}}"#).as_deref(), Some("limit 100"));
        assert_eq!(partial(r#"{"config": {"limit": 0.5}}"#).as_deref(), Some("limit 0.5"));
        assert_eq!(partial(r#"{"config_general": {"max_samples": 6}}"#).as_deref(), Some("max_samples 6"));
        assert_eq!(partial(r#"{"limit": null, "config": {"limit": null}, "accuracy": 1}"#), None);
    }

    #[test]
    fn the_trainer_measures_itself_and_timings_are_no_results() {
        let text = r#"{"epoch": 0.4, "eval_loss": 3.6035640239715576, "eval_runtime": 0.078, "eval_samples": 40,
            "eval_samples_per_second": 512.9, "train_loss": 4.0, "num_input_tokens_seen": 560, "name": "x"}"#;
        let results = read(&json(text));
        assert_eq!(
            rows(&results),
            [("eval_loss", "3.6035640239715576", None, Some(40)), ("train_loss", "4.0", None, None)]
        );
        assert_eq!(results.reported_by, Some(Reporter::Training));
        assert!(is("output/eval_results.json") && !is("my_eval_results.json"));
        assert!(read_any(&json("{\"results\": {\"a\": 1}}")).metrics.is_empty());
    }
}
