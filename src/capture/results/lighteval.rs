//! Results of lighteval: `results/<model>/results_<time>.json`, one entry of `results` for each `task|shots`.
//!
//! Read after `lighteval/logging/info_loggers.py` of 0.13.0. The version of a task stands in `versions` or in
//! its settings; `lighteval_sha` is `?` for a package; -1 is a number of documents that was not counted; and
//! `all` is an average over the others.

use crate::model::{Better, Harness, Metric, Task};

use super::json::Json;
use super::{Hint, Results, is_hex, settings_of};

/// Whether a document has the harness's own members.
pub(super) fn is(json: &Json) -> bool {
    ["results", "config_general", "config_tasks"].iter().all(|key| json.get(key).is_some_and(Json::is_object))
}

/// Reads the results.
pub(super) fn read(json: &Json) -> Results {
    let mut results = Results::new("lighteval");
    let general = json.get("config_general").unwrap_or(&Json::Null);
    let version = general.text_at("lighteval_sha").filter(|sha| *sha != "?").map(str::to_owned);
    results.harness = Some(Harness { name: "lighteval".to_owned(), version });
    let mut reasons = Vec::new();
    if let Some(limit) = general.get("max_samples").and_then(Json::number) {
        reasons.push(format!("max_samples {limit}"));
    }
    let tasks = json.get("results").map_or(&[][..], Json::members);
    for (name, measured) in tasks.iter().filter(|(name, _)| &**name != "all") {
        let config = config_of(json, name);
        let count = |key: &str| config.get(key).and_then(Json::count).filter(|count| *count > 0);
        let (n, original) = (count("effective_num_docs"), count("original_num_docs"));
        if let (Some(n), Some(original)) = (n, original)
            && n < original
        {
            reasons.push(format!("{n} of {original} samples of `{name}`"));
        }
        results.metrics.extend(metrics(name, measured, config, n));
        results.tasks.push(task(json, name, config, original));
        if let Some(size) = config.get("generation_size").and_then(Json::number) {
            results.decoding.insert(format!("{name}/max_tokens"), size.to_owned());
        }
    }
    results.partial = super::reasons(reasons);
    let mut names: Vec<&str> = results.tasks.iter().map(|task| &*task.name).collect();
    names.sort_unstable();
    results.benchmark = (!names.is_empty()).then(|| names.join(","));
    let model = general.get("model_config").unwrap_or(&Json::Null);
    for (key, value) in model.get("generation_parameters").map(settings_of).into_iter().flatten() {
        if key == "seed" {
            results.seeds.insert("sampling".to_owned(), value);
        } else {
            results.decoding.insert(key, value);
        }
    }
    for key in ["dtype", "system_prompt", "override_chat_template"] {
        if let Some(value) = model.get(key).and_then(Json::scalar) {
            results.decoding.insert(key.to_owned(), value);
        }
    }
    results.hints.extend(general.text_at("model_name").map(|name| Hint::Name(name.to_owned())));
    let commits = [general.text_at("model_sha"), model.text_at("revision")];
    let commits = commits.into_iter().flatten().filter(|sha| is_hex(sha, 40));
    results.hints.extend(commits.map(|sha| Hint::Commit(sha.to_owned())));
    results
}

/// Finds the settings of a task, which older versions keep without the number of shots behind the name.
fn config_of<'a>(json: &'a Json, name: &str) -> &'a Json {
    let mut known = Some(name);
    while let Some(name) = known {
        if let Some(config) = json.path(&["config_tasks", name]) {
            return config;
        }
        known = name.rsplit_once('|').map(|(before, _)| before);
    }
    &Json::Null
}

fn metrics(task: &str, measured: &Json, config: &Json, n: Option<u64>) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (key, value) in measured.members() {
        let Json::Number(value) = value else { continue };
        if key.strip_suffix("_stderr").is_some_and(|of| measured.get(of).is_some()) {
            continue;
        }
        metrics.push(Metric {
            name: format!("{task}/{key}"),
            value: value.to_string(),
            stderr: measured.get(&format!("{key}_stderr")).and_then(Json::number).map(str::to_owned),
            n,
            task: Some(task.to_owned()),
            filter: None,
            better: better(config, key).map(|better| better.word().to_owned()),
        });
    }
    metrics
}

/// Says which values are better: a metric may be one of several that are made together.
fn better(config: &Json, metric: &str) -> Option<Better> {
    config.get("metrics").map_or(&[][..], Json::items).iter().find_map(|known| {
        let higher = known.get("higher_is_better")?;
        let higher = match higher {
            Json::Object(_) => higher.get(metric)?,
            _ => Some(higher).filter(|_| known.text_at("metric_name") == Some(metric))?,
        };
        match higher {
            Json::Bool(true) => Some(Better::Higher),
            Json::Bool(false) => Some(Better::Lower),
            _ => None,
        }
    })
}

fn task(json: &Json, name: &str, config: &Json, samples: Option<u64>) -> Task {
    let text = |key: &str| config.text_at(key).map(str::to_owned);
    let splits: Vec<&str> =
        config.get("evaluation_splits").map_or(&[][..], Json::items).iter().filter_map(Json::text).collect();
    let hash = json.path(&["summary_tasks", name, "hashes", "hash_examples"]);
    let few_shot = ["num_fewshots", "num_fewshot"].iter().find_map(|key| config.get(key)?.count());
    Task {
        name: name.to_owned(),
        version: json.path(&["versions", name]).or_else(|| config.get("version")).and_then(Json::scalar),
        hash: hash.and_then(Json::text).map(str::to_owned),
        dataset: text("hf_repo"),
        subset: text("hf_subset"),
        split: (!splits.is_empty()).then(|| splits.join("+")),
        revision: text("hf_revision"),
        few_shot,
        samples,
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::{Keep, parse};
    use super::*;

    #[test]
    fn older_names_settings_and_grouped_metrics_are_found() {
        let text = r#"{"config_general": {"lighteval_sha": "ab", "max_samples": null, "model_name": "org/m",
                "model_sha": "5f3c1e0d9b7a48266c1d2e3f4051627384950a1b"},
            "results": {"leaderboard|arc|25": {"acc": 0.5, "acc_stderr": 0.1, "len": 3.0}, "all": {"acc": 0.5}},
            "versions": {"leaderboard|arc|25": 0},
            "config_tasks": {"leaderboard|arc": {"hf_repo": "ai2_arc", "evaluation_splits": ["test", "dev"],
                "original_num_docs": 10, "effective_num_docs": 4, "generation_size": 8,
                "metrics": [{"metric_name": ["acc", "len"], "higher_is_better": {"acc": true, "len": false}}]}}}"#;
        let json = parse(text.as_bytes(), "r", Keep::All).unwrap();
        assert!(is(&json));
        let results = read(&json);
        let rows: Vec<_> = results
            .metrics
            .iter()
            .map(|m| (&*m.name, &*m.value, m.stderr.as_deref(), m.n, m.better.as_deref()))
            .collect();
        assert_eq!(
            rows,
            [
                ("leaderboard|arc|25/acc", "0.5", Some("0.1"), Some(4), Some("higher")),
                ("leaderboard|arc|25/len", "3.0", None, Some(4), Some("lower")),
            ]
        );
        assert_eq!(results.partial.as_deref(), Some("4 of 10 samples of `leaderboard|arc|25`"));
        let task = &results.tasks[0];
        assert_eq!(
            (task.version.as_deref(), task.split.as_deref(), task.samples),
            (Some("0"), Some("test+dev"), Some(10))
        );
        assert_eq!(results.hints.len(), 2);
        assert_eq!(results.harness.unwrap().version.as_deref(), Some("ab"));
    }
}
