//! `ledger ls`: everything of one kind, in the order of the log or of a field.

use std::fmt::Write as _;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value};

use crate::contract::{self, Filter};
use crate::ledger::Ledger;
use crate::list::{self, What};

use super::error::Failure;
use super::settings::{Context, shell};
use super::ui::{Answer, count, plain};

/// List everything of one kind
#[derive(Debug, clap::Args)]
#[command(
    before_help = "  ledger ls runs\n  ledger ls evals --where 'metrics.accuracy > 0.9' --sort -metrics.accuracy"
)]
pub(super) struct Args {
    /// runs, checkpoints, evals, datasets, models or keys
    #[arg(value_name = "KIND", value_parser = words(), hide_possible_values = true)]
    what: What,
    /// Only rows for which this is true, in CEL: "status == 'failed'", "step > 100 && name != null"
    ///
    /// An unknown name lists the fields that there are. A row that lacks what is compared is left out, and a
    /// warning counts those.
    #[arg(long = "where", value_name = "WHERE")]
    filter: Option<String>,
    /// Sort by a field; -FIELD from the greatest down
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Show these fields
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    columns: Vec<String>,
    /// Print whole ids and nothing else
    #[arg(long, conflicts_with = "columns")]
    ids: bool,
}

/// Takes the word of a list, and offers all of them.
fn words() -> impl TypedValueParser<Value = What> {
    PossibleValuesParser::new(What::ALL.map(What::word))
        .try_map(|word| What::ALL.into_iter().find(|what| what.word() == word).ok_or("there is no such list"))
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let what = args.what;
    // What was asked wrongly is said before the ledger is opened.
    let filter = args.filter.as_deref().map(|text| Filter::parse(text, what.fields())).transpose()?;
    let columns: Vec<&str> = match args.columns.as_slice() {
        [] => what.columns(),
        named => named.iter().map(|name| known(what, name)).collect::<Result<_, _>>()?,
    };
    let sort = args.sort.as_deref().map(|text| (text.trim_start_matches('-'), text.starts_with('-')));
    sort.map(|(path, _)| known(what, path)).transpose()?;

    let asked = Asked { what, filter, columns, sort, is_ids: args.ids };
    context.ask(|ledger| list(&asked, context, ledger))
}

/// A question that is put rightly.
struct Asked<'a> {
    what: What,
    filter: Option<Filter>,
    columns: Vec<&'a str>,
    sort: Option<(&'a str, bool)>,
    is_ids: bool,
}

fn list(asked: &Asked<'_>, context: &Context, ledger: &Ledger) -> Result<Answer, Failure> {
    let source = list::Source::new(ledger, |words| shell(words.iter().map(String::as_str)));
    let mut listed = list::list(&source, asked.what, asked.filter.as_ref())?;
    if let Some((path, is_falling)) = asked.sort {
        list::sort(&mut listed.rows, path, is_falling)?;
    }
    if let Some((id, why)) = &listed.first {
        let (rows, lack) = (count(listed.unanswered as u64, "row"), contract_words(why));
        context
            .ui
            .warn(format!("{rows} left out, where the filter has no answer; the first is {id}: {lack}"));
    }
    let mut answer = Answer::new("ledger.ls/1");
    answer.set("unanswered", listed.unanswered);
    let mut rows = Vec::with_capacity(listed.rows.len());
    for row in &listed.rows {
        let read = |name: &&str| Ok(((*name).to_owned(), row.value(name)?));
        let values: Vec<(String, Value)> = if asked.is_ids && !context.ui.is_json() {
            Vec::new()
        } else {
            asked.columns.iter().map(read).collect::<Result<_, Failure>>()?
        };
        rows.push((row, values));
    }
    let short = listed.rows.iter().map(|row| row.short().len()).max().unwrap_or(0);
    let cells: Vec<Vec<String>> = rows.iter().map(|(_, values)| values.iter().map(cell).collect()).collect();
    let wide =
        |at: usize| cells.iter().filter_map(|cells| cells.get(at)).map(|text| text.chars().count()).max();
    let widths: Vec<usize> = (0..asked.columns.len()).map(|at| wide(at).unwrap_or(0)).collect();
    for ((row, values), cells) in rows.into_iter().zip(&cells) {
        let line = if asked.is_ids {
            row.id()
        } else {
            let mut line = format!("{:<short$}", row.short());
            for (text, width) in cells.iter().zip(&widths).filter(|(_, width)| **width > 0) {
                let _ = write!(line, "  {text:<width$}");
            }
            line.trim_end().to_owned()
        };
        context.ui.row(&mut answer, "rows", line, || {
            values.into_iter().chain([("id".to_owned(), row.id().into())]).collect::<Map<_, _>>().into()
        })?;
    }
    answer.end_list(&context.ui, "rows");
    Ok(answer)
}

/// Returns a field's name if rows have it.
fn known(what: What, name: &str) -> Result<&str, Failure> {
    if what.has(name) {
        return Ok(name);
    }
    let fields = what.fields().iter().map(|field| field.name.to_owned()).collect();
    Err(contract::Error::UnknownField { name: name.to_owned(), known: fields }.into())
}

fn contract_words(error: &contract::Error) -> String {
    match error {
        contract::Error::Evaluation(words) => words.clone(),
        other => other.to_string(),
    }
}

/// Writes a column's value for people. A bare number would not say what it counts.
fn cell((name, value): &(String, Value)) -> String {
    match value {
        Value::Null => String::new(),
        Value::Number(number) => format!("{name} {number}"),
        Value::Array(words) if words.is_empty() && name == "roles" => "no role".to_owned(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("+"),
        Value::Object(fields) => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let pair = |(key, value): (&String, &Value)| plain(&format!("{key}={}", text(value)));
            fields.iter().map(pair).collect::<Vec<_>>().join(" ")
        }
        value => plain(value.as_str().unwrap_or_default()),
    }
}
