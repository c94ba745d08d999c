//! Results of lm-evaluation-harness: `results`, then the task, then `metric,filter`.
//!
//! Read after `lm_eval/result_schema.py` and `lm_eval/evaluator.py` of 0.4.13, and files of 0.4.8. The older one
//! has no `lm_eval_version`, and its `model_args` are one text. `git_hash` is that of the directory where the
//! command ran, so it says nothing about the harness.

use std::collections::BTreeSet;

use crate::model::{Better, Harness, Metric, Task};

use super::json::Json;
use super::{Hint, Results, is_hex, setting, settings_of, split_args};

/// Whether a document has the harness's own members.
pub(super) fn is(json: &Json) -> bool {
    ["results", "configs", "versions"].iter().all(|key| json.get(key).is_some_and(Json::is_object))
}

/// Reads the results.
pub(super) fn read(json: &Json) -> Results {
    let mut results = Results::new("lm-eval");
    let version = json.text_at("lm_eval_version").map(str::to_owned);
    results.harness = Some(Harness { name: "lm-eval".to_owned(), version });
    let config = json.get("config").unwrap_or(&Json::Null);
    let mut reasons = Vec::new();
    if let Some(limit) = config.get("limit").and_then(Json::number) {
        reasons.push(format!("limit {limit}"));
    }
    for (name, measured) in json.get("results").map_or(&[][..], Json::members) {
        let samples = json.path(&["n-samples", name]);
        let count = |key| samples.and_then(|samples| samples.get(key)).and_then(Json::count);
        let (n, original) = (count("effective"), count("original"));
        if let (Some(n), Some(original)) = (n, original)
            && n < original
        {
            reasons.push(format!("{n} of {original} samples of `{name}`"));
        }
        results.metrics.extend(metrics(json, name, measured, n));
        if json.path(&["configs", name]).is_some() {
            results.tasks.push(task(json, name, original));
            let generation =
                json.path(&["configs", name, "generation_kwargs"]).map_or(&[][..], Json::members);
            for (key, value) in generation {
                if let Some(value) = value.scalar() {
                    results.decoding.insert(format!("{name}/{}", setting(key)), value);
                }
            }
        }
    }
    results.partial = super::reasons(reasons);
    results.benchmark = name(json);
    decoding(json, config, &mut results);
    for (key, name) in [
        ("random_seed", "random"),
        ("numpy_seed", "numpy"),
        ("torch_seed", "torch"),
        ("fewshot_seed", "fewshot"),
    ] {
        if let Some(seed) = config.get(key).and_then(Json::scalar) {
            results.seeds.insert(name.to_owned(), seed);
        }
    }
    results.hints = hints(config);
    results
}

/// Names the benchmark by what was asked for: groups, and tasks that are in none.
fn name(json: &Json) -> Option<String> {
    let groups = json.get("group_subtasks").map_or(&[][..], Json::members);
    let inner: BTreeSet<&str> =
        groups.iter().flat_map(|(_, tasks)| tasks.items()).filter_map(Json::text).collect();
    let tasks = json.get("results").map_or(&[][..], Json::members);
    let mut names: Vec<&str> =
        tasks.iter().map(|(name, _)| &**name).filter(|name| !inner.contains(name)).collect();
    names.sort_unstable();
    (!names.is_empty()).then(|| names.join(","))
}

fn metrics(json: &Json, task: &str, measured: &Json, n: Option<u64>) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (key, value) in measured.members() {
        // `alias`, `name`, `sample_len` and their like have no filter: they are no metrics.
        let (Some((metric, filter)), Json::Number(value)) = (key.split_once(','), value) else { continue };
        let is_stderr = metric
            .strip_suffix("_stderr")
            .is_some_and(|of| measured.get(&format!("{of},{filter}")).is_some());
        if is_stderr {
            continue;
        }
        // A standard error that cannot be had is the text `N/A`.
        let stderr = measured.get(&format!("{metric}_stderr,{filter}")).and_then(Json::number);
        let better = match json.path(&["higher_is_better", task, metric]) {
            Some(Json::Bool(true)) => Some(Better::Higher),
            Some(Json::Bool(false)) => Some(Better::Lower),
            _ => None,
        };
        // `none` is the harness's word for no filter.
        let is_filtered = filter != "none";
        metrics.push(Metric {
            name: if is_filtered { format!("{task}/{key}") } else { format!("{task}/{metric}") },
            value: value.to_string(),
            stderr: stderr.map(str::to_owned),
            n,
            task: Some(task.to_owned()),
            filter: is_filtered.then(|| filter.to_owned()),
            better: better.map(|better| better.word().to_owned()),
        });
    }
    metrics
}

fn task(json: &Json, name: &str, samples: Option<u64>) -> Task {
    let config = json.path(&["configs", name]).unwrap_or(&Json::Null);
    let text = |key: &str| config.text_at(key).map(str::to_owned);
    Task {
        name: name.to_owned(),
        version: json.path(&["versions", name]).and_then(Json::scalar),
        hash: json.path(&["task_hashes", name]).and_then(Json::text).map(str::to_owned),
        dataset: text("dataset_path"),
        subset: text("dataset_name"),
        // The harness evaluates on the test split, and on that of validation where there is none.
        split: text("test_split").or_else(|| text("validation_split")),
        revision: config.path(&["dataset_kwargs", "revision"]).and_then(Json::text).map(str::to_owned),
        few_shot: json.path(&["n-shot", name]).and_then(Json::count),
        samples,
    }
}

fn decoding(json: &Json, config: &Json, results: &mut Results) {
    match config.get("gen_kwargs") {
        Some(Json::Text(text)) => {
            results.decoding.extend(split_args(text).map(|(key, value)| (setting(key), value.to_owned())));
        }
        Some(given) => results.decoding.extend(settings_of(given)),
        None => {}
    }
    for (key, name) in
        [("chat_template_sha", "chat_template"), ("system_instruction_sha", "system_instruction")]
    {
        if let Some(sha) = json.text_at(key) {
            results.decoding.insert(name.to_owned(), sha.to_owned());
        }
    }
    if let Some(dtype) = config.text_at("model_dtype") {
        results.decoding.insert("dtype".to_owned(), dtype.to_owned());
    }
}

fn hints(config: &Json) -> Vec<Hint> {
    let mut hints = Vec::new();
    let mut add = |key: &str, value: &str| {
        if matches!(key, "pretrained" | "peft" | "path" | "model") {
            hints.push(Hint::Name(value.to_owned()));
        }
    };
    match config.get("model_args") {
        Some(Json::Text(text)) => split_args(text).for_each(|(key, value)| add(key, value)),
        Some(args) => args.members().iter().for_each(|(key, value)| {
            value.text().into_iter().for_each(|text| add(key, text));
        }),
        None => {}
    }
    // A local model has none: it is the empty text.
    let sha = config.text_at("model_sha").filter(|sha| is_hex(sha, 40));
    hints.extend(sha.map(|sha| Hint::Commit(sha.to_owned())));
    hints
}

#[cfg(test)]
mod tests {
    use super::super::json::{Keep, parse};
    use super::*;

    fn of(text: &str) -> Results {
        let json = parse(text.as_bytes(), "results_2026.json", Keep::All).unwrap();
        assert!(is(&json));
        read(&json)
    }

    const TWO: &str = r#"{
        "results": {
            "verbs": {"name": "verbs", "sample_len": 12, "acc,none": 0.41666, "acc_stderr,none": 0.1486,
                      "exact_match,strict": NaN, "exact_match_stderr,strict": "N/A", "bits,none": 1.0},
            "arc": {"acc,none": 1.0}, "group": {"acc,none": 0.7}
        },
        "group_subtasks": {"group": ["arc"]},
        "configs": {"verbs": {"dataset_path": "acme/verbs", "dataset_name": "en", "validation_split": "dev",
                              "dataset_kwargs": {"revision": "5f3c"},
                              "generation_kwargs": {"max_gen_toks": 64, "until": ["\n"], "do_sample": false}},
                    "arc": {}},
        "versions": {"verbs": 1.0}, "n-shot": {"verbs": 5}, "task_hashes": {"verbs": "ab"},
        "higher_is_better": {"verbs": {"acc": true, "bits": false, "exact_match": null}},
        "n-samples": {"verbs": {"original": 12, "effective": 12}, "arc": {"original": 9, "effective": 9}},
        "config": {"model_sha": "", "limit": null, "gen_kwargs": "temperature=0.7,top_p=0.9",
                   "model_args": "pretrained=out/step-3,dtype=float32", "random_seed": 0, "torch_seed": null}}"#;

    #[test]
    fn metrics_have_task_filter_direction_and_error() {
        let results = of(TWO);
        let rows: Vec<_> = results
            .metrics
            .iter()
            .map(|m| {
                (&*m.name, &*m.value, m.stderr.as_deref(), m.n, m.filter.as_deref(), m.better.as_deref())
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("verbs/acc", "0.41666", Some("0.1486"), Some(12), None, Some("higher")),
                ("verbs/exact_match,strict", "NaN", None, Some(12), Some("strict"), None),
                ("verbs/bits", "1.0", None, Some(12), None, Some("lower")),
                ("arc/acc", "1.0", None, Some(9), None, None),
                ("group/acc", "0.7", None, None, None, None),
            ]
        );
        assert_eq!((results.partial, results.benchmark.as_deref()), (None, Some("group,verbs")));
    }

    #[test]
    fn a_task_says_what_it_is() {
        let results = of(TWO);
        let text = |text: &str| Some(text.to_owned());
        let verbs = Task {
            name: "verbs".into(),
            version: text("1.0"),
            hash: text("ab"),
            dataset: text("acme/verbs"),
            subset: text("en"),
            split: text("dev"),
            revision: text("5f3c"),
            few_shot: Some(5),
            samples: Some(12),
        };
        let arc = Task { name: "arc".into(), samples: Some(9), ..Task::default() };
        assert_eq!(results.tasks, [verbs, arc], "a group is no task of its own");
        assert_eq!(results.hints, [Hint::Name("out/step-3".into())]);
        let decoding: Vec<_> = results.decoding.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            decoding,
            ["temperature=0.7", "top_p=0.9", "verbs/do_sample=false", "verbs/max_tokens=64"]
        );
        assert_eq!(results.seeds.into_iter().collect::<Vec<_>>(), [("random".to_owned(), "0".to_owned())]);
    }

    #[test]
    fn fewer_samples_or_a_limit_make_it_partial() {
        let fewer = TWO.replace("\"effective\": 9", "\"effective\": 5");
        assert_eq!(of(&fewer).partial.as_deref(), Some("5 of 9 samples of `arc`"));
        let limited = TWO.replace("\"limit\": null", "\"limit\": 5.0");
        assert_eq!(of(&limited).partial.as_deref(), Some("limit 5.0"));
    }

    #[test]
    fn a_commit_is_a_hint() {
        let sha = "5f3c1e0d9b7a48266c1d2e3f4051627384950a1b";
        let json = TWO.replace("\"model_sha\": \"\"", &format!("\"model_sha\": \"{sha}\""));
        assert_eq!(of(&json).hints[1], Hint::Commit(sha.into()));
    }
}
