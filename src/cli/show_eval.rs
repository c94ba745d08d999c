//! What `ledger show` says of evaluations, benchmarks and claims, one number a line.
//!
//! A number is never told without what it takes to believe it: its error, on how many samples, and who says so.

use crate::ledger::Ledger;
use crate::model::{Benchmark, Claimed, Eval, Import, Kind, Metric, Task, TypedId};

/// A line: what it is about, and what it says.
type Line = (&'static str, String);

/// Returns the lines about a record of these kinds; `None` for others, and where it cannot be read.
pub(super) fn lines(ledger: &Ledger, id: TypedId) -> Option<Vec<Line>> {
    match id.kind {
        Kind::Eval => Some(of_eval(ledger, &ledger.record(id.id).ok()?)),
        Kind::Benchmark => {
            let benchmark: Benchmark = ledger.record(id.id).ok()?;
            let mut lines = vec![("name", benchmark.name)];
            lines.extend(benchmark.definition.map(|definition| ("definition", definition.short())));
            lines.extend(benchmark.tasks.iter().map(|task| ("task", of_task(task))));
            Some(lines)
        }
        Kind::Import => {
            let import: Import = ledger.record(id.id).ok()?;
            let mut lines = vec![
                ("standing", "claimed by a document; nobody measured it here".to_owned()),
                ("format", import.format),
                ("document", import.document.short()),
            ];
            lines.extend(import.subjects.iter().map(|subject| ("subject", subject.short())));
            lines.extend(import.claims.iter().map(|claim| ("claim", of_claim(claim))));
            Some(lines)
        }
        _ => None,
    }
}

fn of_eval(ledger: &Ledger, eval: &Eval) -> Vec<Line> {
    let benchmark = ledger.record::<Benchmark>(eval.benchmark.id).ok();
    let name = benchmark.as_ref().map(|benchmark| format!("  {}", benchmark.name)).unwrap_or_default();
    let mut lines = vec![("subject", eval.subject.short())];
    lines.extend(eval.of.map(|of| ("of", of.short())));
    lines.push(("binding", eval.binding.clone()));
    if eval.reported_by.is_some() {
        lines.push(("reported by", "the training itself, and no evaluation apart from it".to_owned()));
    }
    lines.extend(eval.partial.clone().map(|reason| ("partial", reason)));
    lines.push(("benchmark", format!("{}{name}", eval.benchmark.short())));
    let tasks = benchmark.iter().flat_map(|benchmark| &benchmark.tasks);
    lines.extend(tasks.map(|task| ("task", of_task(task))));
    lines.extend(eval.metrics.iter().map(|metric| ("metric", of_metric(metric))));
    if let Some(harness) = &eval.harness {
        let version = harness.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        lines.push(("harness", format!("{}{version}", harness.name)));
    }
    for (name, settings) in [("decoding", &eval.decoding), ("seeds", &eval.seeds)] {
        let told: Vec<String> = settings.iter().map(|(key, value)| format!("{key} {value}")).collect();
        lines.extend((!told.is_empty()).then(|| (name, told.join(", "))));
    }
    lines.extend(eval.start.map(|start| ("start", start.short())));
    let results: Vec<String> = eval.results.iter().map(TypedId::short).collect();
    lines.extend((!results.is_empty()).then(|| ("results", results.join("  "))));
    lines.push(("format", eval.format.clone()));
    lines
}

fn of_metric(metric: &Metric) -> String {
    let mut more: Vec<String> = Vec::new();
    more.extend(metric.stderr.as_ref().map(|stderr| format!("stderr {stderr}")));
    more.extend(metric.n.map(|n| format!("n {n}")));
    more.extend(metric.filter.as_ref().map(|filter| format!("filter {filter}")));
    more.extend(metric.better.as_ref().map(|better| format!("{better} is better")));
    with(format!("{} {}", metric.name, metric.value), &more)
}

fn of_task(task: &Task) -> String {
    let mut more: Vec<String> = Vec::new();
    more.extend(task.version.as_ref().map(|version| format!("version {version}")));
    more.extend(task.few_shot.map(|shots| format!("{shots}-shot")));
    let part = [&task.dataset, &task.subset, &task.split].into_iter().flatten();
    let part: Vec<&str> = part.map(String::as_str).collect();
    more.extend((!part.is_empty()).then(|| format!("data {}", part.join(" "))));
    more.extend(task.revision.as_ref().map(|revision| format!("revision {revision}")));
    more.extend(task.samples.map(|samples| format!("{samples} samples")));
    more.extend(task.hash.as_ref().map(|hash| format!("hash {hash}")));
    with(task.name.clone(), &more)
}

fn of_claim(claim: &Claimed) -> String {
    let metric = claim.metric.as_ref().map(|metric| format!("{metric} ")).unwrap_or_default();
    let on = claim.task.as_ref().map(|task| format!(" on {}", of_task(task))).unwrap_or_default();
    let mut more: Vec<String> = claim.label.iter().cloned().collect();
    more.extend(claim.source.as_ref().map(|source| format!("source {source}")));
    more.extend(claim.date.as_ref().map(|date| format!("dated {date}")));
    with(format!("{metric}{}{on}", claim.value), &more)
}

fn with(text: String, more: &[String]) -> String {
    if more.is_empty() { text } else { format!("{text}  ({})", more.join(", ")) }
}
