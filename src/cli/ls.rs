//! `ledger ls`: everything of one kind, in the order of the log.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::ledger::{Ledger, Stated};
use crate::model::{Benchmark, Checkpoint, Eval, Facts, Kind, Name, Plan, TypedId};

use super::error::Failure;
use super::settings::Context;
use super::ui::{self, Answer, plain};

/// List everything of one kind
#[derive(Debug, clap::Args)]
#[command(before_help = "  ledger ls runs\n  ledger ls checkpoints --ids | xargs -n1 ledger verify")]
pub(super) struct Args {
    /// runs, checkpoints, evals, datasets, models or keys
    #[arg(value_name = "KIND", hide_possible_values = true)]
    what: What,
    /// Print whole ids and nothing else
    #[arg(long)]
    ids: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    Runs,
    Checkpoints,
    Evals,
    Datasets,
    Models,
    Keys,
}

/// One row: the whole id, and columns by name.
struct Row {
    id: String,
    short: String,
    columns: Vec<(&'static str, String)>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let ledger = context.open()?;
    let rows = match args.what {
        What::Runs => claimed(&ledger, Kind::Plan, run_columns)?,
        What::Checkpoints => claimed(&ledger, Kind::Checkpoint, checkpoint_columns)?,
        What::Evals => claimed(&ledger, Kind::Eval, eval_columns)?,
        What::Datasets => claimed(&ledger, Kind::Dataset, content_columns)?,
        What::Models => claimed(&ledger, Kind::Model, content_columns)?,
        What::Keys => keys(&ledger),
    };
    let mut answer = Answer::new("ledger.ls/1");
    let short = rows.iter().map(|row| row.short.len()).max().unwrap_or(0);
    let count = rows.first().map_or(0, |row| row.columns.len());
    let width = |at: usize| rows.iter().map(|row| row.columns[at].1.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    for row in &rows {
        let line = if args.ids {
            row.id.clone()
        } else {
            let mut line = format!("{:<short$}", row.short);
            for ((_, text), width) in row.columns.iter().zip(&widths).filter(|(_, width)| **width > 0) {
                let _ = write!(line, "  {text:<width$}");
            }
            line.trim_end().to_owned()
        };
        context.ui.row(&mut answer, "rows", line, || {
            let texts =
                row.columns.iter().map(|(name, text)| ((*name).to_owned(), Value::from(text.clone())));
            texts.chain([("id".to_owned(), row.id.clone().into())]).collect::<Map<_, _>>().into()
        })?;
    }
    answer.end_list(&context.ui, "rows");
    Ok(answer)
}

type Columns = fn(&Ledger, &Stated) -> Vec<(&'static str, String)>;

fn claimed(ledger: &Ledger, kind: Kind, columns: Columns) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (id, place) in ledger.state().claimed(kind) {
        let stated = ledger.stated(place)?;
        let columns = columns(ledger, &stated);
        let columns = columns.into_iter().map(|(name, text)| (name, plain(&text))).collect();
        rows.push(Row { id: id.to_string(), short: id.short(), columns });
    }
    Ok(rows)
}

fn run_columns(ledger: &Ledger, stated: &Stated) -> Vec<(&'static str, String)> {
    let plan = ledger.record::<Plan>(stated.object.id).ok();
    let text = |of: fn(&Plan) -> Option<String>| plan.as_ref().and_then(of).unwrap_or_default();
    let status = ledger.state().run_status(stated.object.id);
    vec![
        ("status", status.map(|status| status.to_string()).unwrap_or_default()),
        ("time", ui::time(stated.time)),
        ("name", text(|plan| plan.name.clone())),
        ("study", text(|plan| plan.study.clone())),
        ("arm", text(|plan| plan.arm.clone())),
        ("command", text(|plan| Some(plan.argv.join(" ")))),
    ]
}

fn checkpoint_columns(ledger: &Ledger, stated: &Stated) -> Vec<(&'static str, String)> {
    let record = ledger.record::<Checkpoint>(stated.object.id).ok();
    let step = record.as_ref().and_then(|record| record.step);
    let run = stated.link("start").and_then(|start| ledger.state().attempt(start.id));
    let run = run.map(|attempt| TypedId::new(Kind::Plan, attempt.plan).short());
    vec![
        ("run", run.unwrap_or_default()),
        ("step", step.map(|step| step.to_string()).unwrap_or_default()),
        ("time", ui::time(stated.time)),
        ("name", named(ledger, stated)),
        ("path", record.and_then(|record| record.path).unwrap_or_default()),
    ]
}

fn eval_columns(ledger: &Ledger, stated: &Stated) -> Vec<(&'static str, String)> {
    let record = ledger.record::<Eval>(stated.object.id).ok();
    let benchmark = stated.link("benchmark").and_then(|id| ledger.record::<Benchmark>(id.id).ok());
    let metrics = record.iter().flat_map(|record| &record.metrics);
    let metrics: Vec<String> = metrics.map(|metric| format!("{}={}", metric.name, metric.value)).collect();
    let subject = stated.link("of").or_else(|| stated.link("subject"));
    vec![
        ("subject", subject.map(|id| id.short()).unwrap_or_default()),
        ("benchmark", benchmark.map(|benchmark| benchmark.name).unwrap_or_default()),
        ("binding", record.as_ref().map(|record| record.binding.clone()).unwrap_or_default()),
        ("time", ui::time(stated.time)),
        ("metrics", metrics.join(" ")),
    ]
}

fn content_columns(ledger: &Ledger, stated: &Stated) -> Vec<(&'static str, String)> {
    let root = stated.link("root").map(|root| root.short()).unwrap_or_default();
    vec![("name", named(ledger, stated)), ("time", ui::time(stated.time)), ("root", root)]
}

/// Returns the name that a claim asked for and was granted, with its version.
fn named(ledger: &Ledger, stated: &Stated) -> String {
    let Facts::Named { name: Some(name) } = &stated.facts else { return String::new() };
    version(ledger, stated.object, name).map_or(String::new(), |version| format!("{name}@{version}"))
}

fn version(ledger: &Ledger, id: TypedId, name: &Name) -> Option<u32> {
    let versions = ledger.state().name(id.kind, name)?.versions;
    let is_it = |version: &u32| {
        ledger.state().version(id.kind, name, *version).is_some_and(|(object, _)| object == id.id)
    };
    (1..=versions).find(is_it)
}

fn keys(ledger: &Ledger) -> Vec<Row> {
    let row = |key: crate::state::KeyRow| {
        let roles: Vec<&str> = key.roles.iter().map(|role| role.word()).collect();
        let roles = if roles.is_empty() { "no role".to_owned() } else { roles.join("+") };
        let columns = vec![
            ("holder", plain(&ledger.holder_name(key.holder).unwrap_or_default())),
            ("roles", roles),
            ("since", key.since.to_string()),
        ];
        Row { id: key.id.to_hex(), short: key.id.to_hex()[..8].to_owned(), columns }
    };
    ledger.state().keys().into_iter().map(row).collect()
}
