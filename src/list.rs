//! Lists: everything of one kind as rows with named fields, filtered, sorted, and shown as far as is asked for.
//!
//! A field is read when it is needed and not before: at a million statements it makes a difference whether a
//! filter needs the State only, the statement, or the record in the store. How a row looks is for `cli`.

use std::cell::{OnceCell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::acts::rfc3339;
use crate::contract::{self, Field, Filter};
use crate::ledger::{Error, Ledger, Reader, Stated};
use crate::model::{Benchmark, Checkpoint, Eval, Facts, Kind, Name, Plan, TypedId};
use crate::state::{KeyRow, Place};

/// What there are lists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is what it is called")]
pub enum What {
    Runs,
    Checkpoints,
    Evals,
    Datasets,
    Models,
    Keys,
}

const fn field(name: &'static str) -> Field {
    Field { name, is_map: false }
}

const METRICS: Field = Field { name: "metrics", is_map: true };

impl What {
    const fn kind(self) -> Option<Kind> {
        match self {
            Self::Runs => Some(Kind::Plan),
            Self::Checkpoints => Some(Kind::Checkpoint),
            Self::Evals => Some(Kind::Eval),
            Self::Datasets => Some(Kind::Dataset),
            Self::Models => Some(Kind::Model),
            Self::Keys => None,
        }
    }

    /// Returns all fields of a row, those that are shown unasked first.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Self::Runs => {
                const {
                    &[
                        field("status"),
                        field("time"),
                        field("name"),
                        field("study"),
                        field("arm"),
                        field("command"),
                        field("seed"),
                        field("attempts"),
                        field("by"),
                        field("statement"),
                        field("id"),
                    ]
                }
            }
            Self::Checkpoints => {
                const {
                    &[
                        field("run"),
                        field("step"),
                        field("time"),
                        field("name"),
                        field("path"),
                        field("format"),
                        field("weights"),
                        field("by"),
                        field("statement"),
                        field("id"),
                    ]
                }
            }
            Self::Evals => {
                const {
                    &[
                        field("subject"),
                        field("benchmark"),
                        field("binding"),
                        field("time"),
                        METRICS,
                        field("partial"),
                        field("format"),
                        field("harness"),
                        field("reported_by"),
                        field("by"),
                        field("statement"),
                        field("id"),
                    ]
                }
            }
            Self::Datasets | Self::Models => {
                const {
                    &[
                        field("name"),
                        field("time"),
                        field("root"),
                        field("by"),
                        field("statement"),
                        field("id"),
                    ]
                }
            }
            Self::Keys => const { &[field("holder"), field("roles"), field("since"), field("id")] },
        }
    }

    /// Returns the names of the fields that are shown unasked.
    pub fn columns(self) -> Vec<&'static str> {
        let shown = match self {
            Self::Runs => 6,
            Self::Checkpoints | Self::Evals => 5,
            Self::Datasets | Self::Models | Self::Keys => 3,
        };
        self.fields()[..shown].iter().map(|field| field.name).collect()
    }

    /// Whether rows have a field: a name, or for a map `name.key`.
    pub fn has(self, path: &str) -> bool {
        let (name, key) = parts(path);
        self.fields().iter().any(|field| field.name == name && (key.is_none() || field.is_map))
    }
}

fn parts(path: &str) -> (&str, Option<&str>) {
    path.split_once('.').map_or((path, None), |(name, key)| (name, Some(key)))
}

/// Rows, and how many of them the filter could not be asked about.
#[derive(Debug)]
pub struct Listed<'a> {
    /// Those for which the filter holds.
    pub rows: Vec<Row<'a>>,
    /// How many are left out because a field that the filter needs is absent or of another type.
    pub unanswered: usize,
    /// The short id of the first of them, and why.
    pub first: Option<(String, contract::Error)>,
}

/// Lists everything of one kind for which a filter holds, in the order of the log.
pub fn list<'a>(source: &'a Source<'a>, what: What, filter: Option<&Filter>) -> Result<Listed<'a>, Error> {
    let mut listed = Listed { rows: Vec::new(), unanswered: 0, first: None };
    let ledger = source.ledger;
    let rows: Vec<Subject> = match what.kind() {
        Some(kind) => {
            ledger.state().claimed(kind).into_iter().map(|(id, place)| Subject::Claimed(id, place)).collect()
        }
        None => ledger.state().keys().into_iter().map(|key| Subject::Key(Box::new(key))).collect(),
    };
    for subject in rows {
        let row = Row {
            source,
            subject,
            stated: OnceCell::new(),
            plan: OnceCell::new(),
            checkpoint: OnceCell::new(),
            eval: OnceCell::new(),
        };
        let holds = filter.map_or(Ok(true), |filter| filter.holds(&row));
        // A log that cannot be read is damage, whatever it left a filter to see.
        if let Some(error) = source.failed.borrow_mut().take() {
            return Err(error);
        }
        match holds {
            Ok(true) => listed.rows.push(row),
            Ok(false) => {}
            Err(error) => {
                listed.unanswered += 1;
                listed.first.get_or_insert_with(|| (row.short(), error));
            }
        }
    }
    Ok(listed)
}

/// Where rows read their fields.
#[derive(Debug)]
pub struct Source<'a> {
    ledger: &'a Ledger,
    reader: RefCell<Reader<'a>>,
    command: fn(&[String]) -> String,
    failed: RefCell<Option<Error>>,
}

impl<'a> Source<'a> {
    /// Reads from a ledger; `command` writes the words of a command as one text.
    pub const fn new(ledger: &'a Ledger, command: fn(&[String]) -> String) -> Self {
        Self { ledger, reader: RefCell::new(ledger.reader()), command, failed: RefCell::new(None) }
    }
}

#[derive(Debug)]
enum Subject {
    Claimed(TypedId, Place),
    Key(Box<KeyRow>),
}

/// One row.
#[derive(Debug)]
pub struct Row<'a> {
    source: &'a Source<'a>,
    subject: Subject,
    stated: OnceCell<Option<Stated>>,
    plan: OnceCell<Option<Plan>>,
    checkpoint: OnceCell<Option<Checkpoint>>,
    eval: OnceCell<Option<Eval>>,
}

impl Row<'_> {
    /// Returns the whole id.
    pub fn id(&self) -> String {
        match &self.subject {
            Subject::Claimed(id, _) => id.to_string(),
            Subject::Key(key) => key.id.to_hex(),
        }
    }

    /// Returns the short id.
    pub fn short(&self) -> String {
        match &self.subject {
            Subject::Claimed(id, _) => id.short(),
            Subject::Key(key) => key.id.to_hex()[..8].to_owned(),
        }
    }

    /// Returns what a field holds, or what a map holds under `name.key`; null where there is nothing.
    pub fn value(&self, path: &str) -> Result<Value, Error> {
        let value = self.read(path);
        self.source.failed.borrow_mut().take().map_or(Ok(value), Err)
    }

    fn read(&self, path: &str) -> Value {
        let (name, key) = parts(path);
        let mut value = match &self.subject {
            Subject::Claimed(..) if name == "id" => self.id().into(),
            Subject::Key(key) => self.of_key(key, name),
            Subject::Claimed(id, _) => match id.kind {
                Kind::Plan => self.of_run(*id, name),
                Kind::Checkpoint => self.of_checkpoint(name),
                Kind::Eval => self.of_eval(name),
                _ => self.of_content(name),
            },
        };
        match key {
            Some(key) => value.get_mut(key).map_or(Value::Null, Value::take),
            None => value,
        }
    }

    /// Returns the first claim. Damage is kept for whoever asked for the row.
    fn stated(&self) -> Option<&Stated> {
        let Subject::Claimed(_, place) = self.subject else { return None };
        let read = || match self.source.reader.borrow_mut().stated(place) {
            Ok(stated) => Some(stated),
            Err(error) => {
                self.source.failed.borrow_mut().get_or_insert(error);
                None
            }
        };
        self.stated.get_or_init(read).as_ref()
    }

    fn stated_field(&self, name: &str) -> Value {
        match name {
            "time" => self.stated().map(|stated| rfc3339(stated.time)).into(),
            "by" => self.stated().map(|stated| self.source.ledger.who(stated.key)).into(),
            "name" => self.stated().and_then(|stated| named(self.source.ledger, stated)).into(),
            "statement" => match self.subject {
                Subject::Claimed(_, place) => place.index.into(),
                Subject::Key(_) => Value::Null,
            },
            _ => Value::Null,
        }
    }

    fn of_run(&self, id: TypedId, name: &str) -> Value {
        let ledger = self.source.ledger;
        let plan = || self.plan.get_or_init(|| ledger.record::<Plan>(id.id).ok()).as_ref();
        match name {
            "status" => ledger.state().run_status(id.id).map(|status| status.to_string()).into(),
            "attempts" => ledger.state().run(id.id).map(|run| run.attempts).into(),
            "name" => plan().and_then(|plan| plan.name.clone()).into(),
            "study" => plan().and_then(|plan| plan.study.clone()).into(),
            "arm" => plan().and_then(|plan| plan.arm.clone()).into(),
            "seed" => plan().and_then(|plan| plan.seed).into(),
            "command" => plan().map(|plan| (self.source.command)(&plan.argv)).into(),
            other => self.stated_field(other),
        }
    }

    fn of_checkpoint(&self, name: &str) -> Value {
        let ledger = self.source.ledger;
        let read = || self.stated().and_then(|stated| ledger.record::<Checkpoint>(stated.object.id).ok());
        let record = || self.checkpoint.get_or_init(read).as_ref();
        match name {
            "run" => {
                let start = self.stated().and_then(|stated| stated.link("start"));
                let attempt = start.and_then(|start| ledger.state().attempt(start.id));
                attempt.map(|attempt| TypedId::new(Kind::Plan, attempt.plan).short()).into()
            }
            "weights" => {
                let weights = self.stated().and_then(|stated| stated.link("weights"));
                weights.map(|weights| weights.short()).into()
            }
            "step" => record().and_then(|record| record.step).into(),
            "path" => record().and_then(|record| record.path.clone()).into(),
            "format" => record().map(|record| record.format.clone()).into(),
            other => self.stated_field(other),
        }
    }

    fn of_eval(&self, name: &str) -> Value {
        let ledger = self.source.ledger;
        let read = || self.stated().and_then(|stated| ledger.record::<Eval>(stated.object.id).ok());
        let record = || self.eval.get_or_init(read).as_ref();
        match name {
            "subject" => {
                let subject = self.stated().and_then(|one| one.link("of").or_else(|| one.link("subject")));
                subject.map(|id| id.short()).into()
            }
            "benchmark" => {
                let id = self.stated().and_then(|stated| stated.link("benchmark"));
                let benchmark = id.and_then(|id| ledger.record::<Benchmark>(id.id).ok());
                benchmark.map(|benchmark| benchmark.name).into()
            }
            "binding" => record().map(|record| record.binding.clone()).into(),
            "partial" => record().and_then(|record| record.partial.clone()).into(),
            "format" => record().map(|record| record.format.clone()).into(),
            "harness" => record().and_then(|record| Some(record.harness.as_ref()?.name.clone())).into(),
            "reported_by" => record().and_then(|record| record.reported_by.clone()).into(),
            "metrics" => {
                let number = |text: &str| text.parse().map_or_else(|_| text.into(), Value::Number);
                let metrics = record().into_iter().flat_map(|record| &record.metrics);
                let metrics = metrics.map(|metric| (metric.name.clone(), number(&metric.value)));
                metrics.collect::<Map<String, Value>>().into()
            }
            other => self.stated_field(other),
        }
    }

    fn of_content(&self, name: &str) -> Value {
        match name {
            "root" => self.stated().and_then(|stated| stated.link("root")).map(|root| root.short()).into(),
            other => self.stated_field(other),
        }
    }

    fn of_key(&self, key: &KeyRow, name: &str) -> Value {
        match name {
            "holder" => self.source.ledger.holder_name(key.holder).into(),
            "roles" => key.roles.iter().map(|role| role.word()).collect::<Vec<_>>().into(),
            "since" => key.since.into(),
            "id" => key.id.to_hex().into(),
            _ => Value::Null,
        }
    }
}

impl contract::Row for Row<'_> {
    fn field(&self, name: &str) -> contract::Value {
        let value = self.read(name);
        match value {
            // Metrics that JSON has no number for stand there as text.
            Value::Object(metrics) => {
                let number = |value: Value| match &value {
                    Value::String(text) => text.parse().map_or_else(|_| fact(value), contract::Value::Float),
                    _ => fact(value),
                };
                contract::Value::Map(metrics.into_iter().map(|(key, value)| (key, number(value))).collect())
            }
            value => fact(value),
        }
    }
}

fn fact(value: Value) -> contract::Value {
    use contract::Value as V;
    match value {
        Value::Null => V::Null,
        Value::Bool(value) => V::Bool(value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => V::Int(number),
            None => number.as_f64().map_or(V::Null, V::Float),
        },
        Value::String(text) => V::Text(text),
        Value::Array(items) => V::List(items.into_iter().map(fact).collect()),
        Value::Object(fields) => {
            V::Map(fields.into_iter().map(|(key, value)| (key, fact(value))).collect::<BTreeMap<_, _>>())
        }
    }
}

/// Sorts rows by a field, what has none of it last; rows that are equal in it keep the order of the log.
pub fn sort(rows: &mut Vec<Row<'_>>, path: &str, is_falling: bool) -> Result<(), Error> {
    let keys: Vec<Value> = rows.iter().map(|row| row.value(path)).collect::<Result<_, _>>()?;
    let mut keyed: Vec<(Value, Row<'_>)> = keys.into_iter().zip(rows.drain(..)).collect();
    keyed.sort_by(|(a, _), (b, _)| order(a, b, is_falling));
    rows.extend(keyed.into_iter().map(|(_, row)| row));
    Ok(())
}

fn order(a: &Value, b: &Value, is_falling: bool) -> Ordering {
    let number = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text.ends_with("Infinity") => text.parse().ok(),
        _ => None,
    };
    let is_nothing = |value: &Value| value.is_null() || value.as_str() == Some("NaN");
    let turned = |order: Ordering| if is_falling { order.reverse() } else { order };
    match (is_nothing(a), is_nothing(b)) {
        (true, true) => return Ordering::Equal,
        (false, true) => return Ordering::Less,
        (true, false) => return Ordering::Greater,
        (false, false) => {}
    }
    match (number(a), number(b)) {
        (Some(a), Some(b)) => turned(a.total_cmp(&b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => match (a.as_str(), b.as_str()) {
            (Some(a), Some(b)) => turned(a.cmp(b)),
            _ => turned(a.to_string().cmp(&b.to_string())),
        },
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_no_order_comes_last_in_both_directions() {
        let values =
            [json!("NaN"), json!(2), json!(null), json!("Infinity"), json!(10.5), json!("-Infinity")];
        let sorted = |is_falling| {
            let mut values = values.to_vec();
            values.sort_by(|a, b| order(a, b, is_falling));
            values
        };
        let [nan, none] = [json!("NaN"), json!(null)];
        let rising =
            [json!("-Infinity"), json!(2), json!(10.5), json!("Infinity"), nan.clone(), none.clone()];
        assert_eq!(sorted(false), rising);
        let falling = [json!("Infinity"), json!(10.5), json!(2), json!("-Infinity"), nan, none];
        assert_eq!(sorted(true), falling);
    }

    #[test]
    fn numbers_that_json_lacks_are_numbers_to_a_filter() {
        assert_eq!(fact(json!(3)), contract::Value::Int(3));
        assert_eq!(fact(json!(2.5)), contract::Value::Float(2.5));
        assert_eq!(fact(json!("x")), contract::Value::Text("x".to_owned()));
    }
}
