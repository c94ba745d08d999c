//! `ledger ls`: everything of one kind, in the order of the log.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::ledger::{Ledger, Stated};
use crate::model::{Benchmark, Checkpoint, Eval, Facts, Kind, Name, Plan, TypedId};

use super::error::Failure;
use super::settings::{Context, shell};
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
    columns: Vec<(&'static str, Value)>,
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
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.columns.iter().map(cell).collect()).collect();
    let count = cells.first().map_or(0, Vec::len);
    let width = |at: usize| cells.iter().map(|cells| cells[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    for (row, cells) in rows.iter().zip(&cells) {
        let line = if args.ids {
            row.id.clone()
        } else {
            let mut line = format!("{:<short$}", row.short);
            for (text, width) in cells.iter().zip(&widths).filter(|(_, width)| **width > 0) {
                let _ = write!(line, "  {text:<width$}");
            }
            line.trim_end().to_owned()
        };
        context.ui.row(&mut answer, "rows", line, || {
            let columns = row.columns.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            columns.chain([("id".to_owned(), row.id.clone().into())]).collect::<Map<_, _>>().into()
        })?;
    }
    answer.end_list(&context.ui, "rows");
    Ok(answer)
}

/// Writes a column's value for people. A bare number would not say what it counts.
fn cell((name, value): &(&'static str, Value)) -> String {
    match value {
        Value::Null => String::new(),
        Value::Number(number) => format!("{name} {number}"),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("+"),
        Value::Object(fields) => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let pair = |(key, value): (&String, &Value)| plain(&format!("{key}={}", text(value)));
            fields.iter().map(pair).collect::<Vec<_>>().join(" ")
        }
        value => plain(value.as_str().unwrap_or_default()),
    }
}

type Columns = fn(&Ledger, &Stated) -> Vec<(&'static str, Value)>;

fn claimed(ledger: &Ledger, kind: Kind, columns: Columns) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (id, place) in ledger.state().claimed(kind) {
        let stated = ledger.stated(place)?;
        rows.push(Row { id: id.to_string(), short: id.short(), columns: columns(ledger, &stated) });
    }
    Ok(rows)
}

fn run_columns(ledger: &Ledger, stated: &Stated) -> Vec<(&'static str, Value)> {
    let plan = ledger.record::<Plan>(stated.object.id).ok();
    let text = |of: fn(&Plan) -> Option<String>| plan.as_ref().and_then(of).into();
    let status = ledger.state().run_status(stated.object.id);
    vec![
        ("status", status.map(|status| status.to_string()).into()),
        ("time", ui::time(stated.time).into()),
        ("name", text(|plan| plan.name.clone())),
        ("study", text(|plan| plan.study.clone())),
        ("arm", text(|plan| plan.arm.clone())),
        ("command", text(|plan| Some(shell(plan.argv.iter().map(String::as_str))))),
    ]
}

fn checkpoint_columns(ledger: &Ledger, stated: &Stated) -> Vec<(&'static str, Value)> {
    let record = ledger.record::<Checkpoint>(stated.object.id).ok();
    let run = stated.link("start").and_then(|start| ledger.state().attempt(start.id));
    let run = run.map(|attempt| TypedId::new(Kind::Plan, attempt.plan).short());
    vec![
        ("run", run.into()),
        ("step", record.as_ref().and_then(|record| record.step).into()),
        ("time", ui::time(stated.time).into()),
        ("name", named(ledger, stated).into()),
        ("path", record.and_then(|record| record.path).into()),
    ]
}

fn eval_columns(ledger: &Ledger, stated: &Stated) -> Vec<(&'static str, Value)> {
    let record = ledger.record::<Eval>(stated.object.id).ok();
    let benchmark = stated.link("benchmark").and_then(|id| ledger.record::<Benchmark>(id.id).ok());
    let number = |text: &str| text.parse().map_or_else(|_| text.into(), Value::Number);
    let metrics = record.iter().flat_map(|record| &record.metrics);
    let metrics = metrics.map(|metric| (metric.name.clone(), number(&metric.value)));
    let metrics: Map<String, Value> = metrics.collect();
    let subject = stated.link("of").or_else(|| stated.link("subject"));
    vec![
        ("subject", subject.map(|id| id.short()).into()),
        ("benchmark", benchmark.map(|benchmark| benchmark.name).into()),
        ("binding", record.map(|record| record.binding).into()),
        ("time", ui::time(stated.time).into()),
        ("metrics", metrics.into()),
    ]
}

fn content_columns(ledger: &Ledger, stated: &Stated) -> Vec<(&'static str, Value)> {
    let root = stated.link("root").map(|root| root.short());
    vec![
        ("name", named(ledger, stated).into()),
        ("time", ui::time(stated.time).into()),
        ("root", root.into()),
    ]
}

/// Returns the name that a claim asked for and was granted, with its version.
fn named(ledger: &Ledger, stated: &Stated) -> Option<String> {
    let Facts::Named { name: Some(name) } = &stated.facts else { return None };
    version(ledger, stated.object, name).map(|version| format!("{name}@{version}"))
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
        let columns = vec![
            ("holder", ledger.holder_name(key.holder).into()),
            ("roles", if roles.is_empty() { "no role".into() } else { roles.into() }),
            ("since", key.since.into()),
        ];
        Row { id: key.id.to_hex(), short: key.id.to_hex()[..8].to_owned(), columns }
    };
    ledger.state().keys().into_iter().map(row).collect()
}
