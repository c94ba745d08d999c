//! Logs of Inspect: a `.eval` archive, of which `header.json` is read, or the same as one `.json` document.
//!
//! Read after `EvalLog` in `inspect_ai/log/_log.py` of 0.3.285. `eval.dataset.samples` is the number of samples of
//! the data set whatever was evaluated, so that an evaluation is whole is taken from the limit, the samples that
//! were completed and scored, and the status. A log whose status is `error` has no results.

use crate::model::{Harness, Metric, Task};

use super::json::{Json, Keep, parse};
use super::{Error, Hint, Results, archive, settings_of};

/// Whether a document is a log.
pub(super) fn is(json: &Json) -> bool {
    json.get("status").and_then(Json::text).is_some()
        && json.path(&["eval", "task"]).is_some()
        && json.path(&["eval", "model"]).is_some()
}

/// Returns the document of an archive.
pub(super) fn document(bytes: &[u8], name: &str) -> Result<Json, Error> {
    if let Some(header) = archive::member(bytes, "header.json", name)? {
        let json = parse(&header, &format!("{name}/header.json"), Keep::NoSamples)?;
        return if is(&json) { Ok(json) } else { Err(unknown(name)) };
    }
    // The header comes last, so a log without one stopped on the way.
    match archive::member(bytes, "_journal/start.json", name)? {
        Some(_) => Err(Error::NoResults {
            name: name.to_owned(),
            status: "started".to_owned(),
            reason: Some("the evaluation did not end".to_owned()),
        }),
        None => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    Error::Archive { name: name.to_owned(), what: "it is no log of Inspect".to_owned() }
}

/// Reads a log.
pub(super) fn read(json: &Json, name: &str) -> Result<Results, Error> {
    let status = json.text_at("status").unwrap_or_default();
    let Some(measured) = json.get("results").filter(|results| results.is_object()) else {
        return Err(Error::NoResults {
            name: name.to_owned(),
            status: status.to_owned(),
            reason: json.path(&["error", "message"]).and_then(Json::text).map(str::to_owned),
        });
    };
    let eval = json.get("eval").unwrap_or(&Json::Null);
    let task = eval.text_at("task").unwrap_or_default();
    let mut results = Results::new("inspect");
    results.harness = Some(Harness {
        name: "inspect".to_owned(),
        version: eval.path(&["packages", "inspect_ai"]).and_then(Json::text).map(str::to_owned),
    });
    results.benchmark = Some(task.to_owned());
    let dataset = eval.get("dataset").unwrap_or(&Json::Null);
    let samples = dataset.get("samples").and_then(Json::count);
    results.tasks = vec![Task {
        name: task.to_owned(),
        version: eval.get("task_version").and_then(Json::scalar),
        dataset: dataset.text_at("location").or_else(|| dataset.text_at("name")).map(str::to_owned),
        samples,
        ..Task::default()
    }];
    for score in measured.get("scores").map_or(&[][..], Json::items) {
        results.metrics.extend(metrics(task, score));
    }
    results.partial = partial(json, eval, measured, samples, status);
    // What the task asked for, then what the command changed.
    for config in [json.path(&["plan", "config"]), eval.get("model_generate_config")].into_iter().flatten() {
        for (key, value) in settings_of(config) {
            match &*key {
                "seed" => results.seeds.insert("sampling".to_owned(), value),
                // These change how fast answers come, not which.
                "max_connections"
                | "max_retries"
                | "timeout"
                | "attempt_timeout"
                | "batch"
                | "adaptive_connections" => None,
                _ => results.decoding.insert(key, value),
            };
        }
    }
    if let Some(epochs) = eval.path(&["config", "epochs"]).and_then(Json::count).filter(|epochs| *epochs != 1)
    {
        results.decoding.insert("epochs".to_owned(), epochs.to_string());
    }
    for (key, value) in eval.get("task_args").map_or(&[][..], Json::members) {
        if let Some(value) = value.scalar() {
            results.decoding.insert(format!("{task}/{key}"), value);
        }
    }
    if let Some(seed) = eval.path(&["config", "sample_shuffle"]).and_then(Json::number) {
        results.seeds.insert("shuffle".to_owned(), seed.to_owned());
    }
    results.hints.extend(eval.text_at("model").map(|model| Hint::Name(model.to_owned())));
    let path = eval.path(&["model_args", "model_path"]).and_then(Json::text);
    results.hints.extend(path.map(|path| Hint::Name(path.to_owned())));
    Ok(results)
}

fn metrics(task: &str, score: &Json) -> Vec<Metric> {
    let name = score.text_at("name").unwrap_or_default();
    let reducer = score.text_at("reducer");
    let n = score.get("scored_samples").and_then(Json::count);
    let all = score.get("metrics").map_or(&[][..], Json::members);
    let value = |metric: &Json| metric.get("value").and_then(Json::number).map(str::to_owned);
    // A standard error belongs to the one metric beside it; among several it stands for itself.
    let (errors, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|(key, _)| matches!(&**key, "stderr" | "bootstrap_stderr"));
    let is_pair = errors.len() == 1 && others.len() == 1;
    let stderr = errors.first().filter(|_| is_pair).and_then(|(_, metric)| value(metric));
    let told = if is_pair { others } else { all.iter().collect() };
    let of = |(key, metric): &(Box<str>, Json)| {
        let filtered = reducer.map_or(String::new(), |reducer| format!(",{reducer}"));
        Some(Metric {
            name: format!("{task}/{name}/{key}{filtered}"),
            value: value(metric)?,
            stderr: stderr.clone(),
            n,
            task: Some(task.to_owned()),
            filter: reducer.map(str::to_owned),
            better: None,
        })
    };
    told.into_iter().filter_map(of).collect()
}

fn partial(json: &Json, eval: &Json, measured: &Json, samples: Option<u64>, status: &str) -> Option<String> {
    let mut reasons = Vec::new();
    match eval.path(&["config", "limit"]) {
        Some(Json::Number(limit)) => reasons.push(format!("limit {limit}")),
        Some(Json::Array(range)) => {
            let ends: Vec<&str> = range.iter().filter_map(Json::number).collect();
            reasons.push(format!("limit {}", ends.join("-")));
        }
        _ => {}
    }
    if !matches!(eval.path(&["config", "sample_id"]), None | Some(Json::Null)) {
        reasons.push("samples chosen by id".to_owned());
    }
    let epochs = eval.path(&["config", "epochs"]).and_then(Json::count).unwrap_or(1).max(1);
    let count = |key: &str| measured.get(key).and_then(Json::count);
    let done = [count("completed_samples"), count("logged_samples"), count("total_samples")]
        .into_iter()
        .flatten()
        .min();
    let whole = samples.map(|samples| samples.saturating_mul(epochs)).or_else(|| count("total_samples"));
    match (done, whole) {
        (Some(done), Some(whole)) if done < whole => reasons.push(format!("{done} of {whole} samples")),
        _ => {}
    }
    for score in measured.get("scores").map_or(&[][..], Json::items) {
        let count = |key: &str| score.get(key).and_then(Json::count);
        if let (Some(scored), Some(unscored @ 1..)) = (count("scored_samples"), count("unscored_samples")) {
            let name = score.text_at("name").unwrap_or_default();
            reasons
                .push(format!("{scored} of {} samples scored by `{name}`", scored.saturating_add(unscored)));
        }
    }
    if json.get("invalidated") == Some(&Json::Bool(true)) {
        reasons.push("samples were invalidated".to_owned());
    }
    if status != "success" {
        reasons.push(format!("status {status}"));
    }
    super::reasons(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"status": "success", "eval": {"task": "t", "task_version": 2, "model": "hf/out/step-3",
        "task_args": {"level": 2}, "packages": {"inspect_ai": "0.3"}, "config": {"epochs": 2, "sample_shuffle": 5},
        "dataset": {"name": "d", "samples": 3}, "model_generate_config": {"temperature": 0.5, "seed": 7}},
        "plan": {"config": {"temperature": 0.0, "max_tokens": 64, "max_connections": 1}},
        "results": {"total_samples": 6, "completed_samples": 6, "scores": [
            {"name": "match", "reducer": "mean", "scored_samples": 3, "unscored_samples": 0, "metrics": {
                "accuracy": {"value": 0.50}, "stderr": {"value": NaN}}},
            {"name": "two", "metrics": {"a": {"value": 1}, "b": {"value": 2}, "stderr": {"value": 3}}}]}}"#;

    fn of(text: &str) -> Result<Results, Error> {
        let json = parse(text.as_bytes(), "x.json", Keep::NoSamples).unwrap();
        assert!(is(&json));
        read(&json, "x.json")
    }

    #[test]
    fn scores_are_metrics_and_an_error_belongs_to_the_one_beside_it() {
        let results = of(LOG).unwrap();
        let rows: Vec<_> =
            results.metrics.iter().map(|m| (&*m.name, &*m.value, m.stderr.as_deref(), m.n)).collect();
        assert_eq!(
            rows,
            [
                ("t/match/accuracy,mean", "0.50", Some("NaN"), Some(3)),
                ("t/two/a", "1", None, None),
                ("t/two/b", "2", None, None),
                ("t/two/stderr", "3", None, None),
            ]
        );
        let decoding: Vec<_> = results.decoding.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(decoding, ["epochs=2", "max_tokens=64", "t/level=2", "temperature=0.5"]);
        let seeds: Vec<_> = results.seeds.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(seeds, ["sampling=7", "shuffle=5"]);
        assert_eq!((results.partial, results.tasks[0].version.as_deref()), (None, Some("2")));
    }

    #[test]
    fn what_was_left_out_makes_it_partial() {
        let partial = |from: &str, to: &str| {
            assert!(LOG.contains(from), "{from}");
            of(&LOG.replace(from, to)).unwrap().partial.unwrap_or_default()
        };
        assert_eq!(partial("\"epochs\": 2", "\"epochs\": 2, \"limit\": [1, 3]"), "limit 1-3");
        assert_eq!(partial("\"epochs\": 2", "\"epochs\": 2, \"sample_id\": [4]"), "samples chosen by id");
        assert_eq!(partial("\"completed_samples\": 6", "\"completed_samples\": 5"), "5 of 6 samples");
        assert_eq!(partial("\"total_samples\": 6", "\"total_samples\": 4"), "4 of 6 samples");
        assert_eq!(
            partial("\"total_samples\"", "\"logged_samples\": 2, \"total_samples\""),
            "2 of 6 samples"
        );
        assert_eq!(
            partial("\"unscored_samples\": 0", "\"unscored_samples\": 2"),
            "3 of 5 samples scored by `match`"
        );
        assert_eq!(partial("\"status\": \"success\"", "\"status\": \"cancelled\""), "status cancelled");
        assert_eq!(partial("{\"status\"", "{\"invalidated\": true, \"status\""), "samples were invalidated");
    }

    #[test]
    fn without_results_there_is_nothing_to_record() {
        let text = r#"{"status": "error", "error": {"message": "gone"}, "results": null,
            "eval": {"task": "t", "model": "m"}}"#;
        let error = of(text).unwrap_err();
        assert!(matches!(&error, Error::NoResults { status, .. } if status == "error"), "{error}");
    }
}
