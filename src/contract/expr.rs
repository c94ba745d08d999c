//! Expressions: a yes or no about the fields of one row, in CEL, read once and asked of many rows.
//!
//! Outside of this file nobody sees the engine. What it would only notice while running, or not at all, is refused
//! when the expression is read: unknown fields and functions, and what could take too long. Rows are nobody's
//! business here; a field that cannot be compared makes an error, never a yes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, Env, Program};

/// The most bytes of an expression.
pub const MAX_SOURCE: usize = 4096;
/// The most brackets that stand open at once; the engine's parser takes a stack frame for each.
const MAX_OPEN: usize = 32;
const MAX_NODES: u64 = 2000;
/// The most loops, as `exists` is one, that lie in each other.
const MAX_LOOPS: usize = 2;
/// The most steps of one answer, by a bound that is worked out before anything runs.
const MAX_STEPS: u64 = 10_000_000;
/// How many items a list of a row is taken to have at most in that bound.
const LIST: u64 = 256;

/// Functions that may be called; operators are always allowed.
const FUNCTIONS: &[&str] = &["contains", "double", "endsWith", "int", "size", "startsWith", "string"];

/// Why an expression cannot be read, or says neither yes nor no.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not an expression.
    #[error("the expression cannot be read")]
    Syntax {
        /// What the engine says, and where.
        said: String,
    },
    /// A name that no row has.
    #[error("there is no field `{name}`")]
    UnknownField {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A function that there is none of.
    #[error("there is no function `{name}`")]
    UnknownFunction {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It is longer or deeper than any that a person writes, or could take too long.
    #[error("the expression is too large: {0}")]
    TooLarge(String),
    /// It uses a part of the language that is left out here, since its answer could hang on chance.
    #[error("{0} has no place here")]
    NotAllowed(&'static str),
    /// A field is absent, or of another type than it is compared with.
    #[error("it cannot be evaluated: {0}")]
    Evaluation(String),
    /// The answer is not yes or no.
    #[error("it says {0}, not yes or no")]
    NotBoolean(String),
}

/// What a field holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number. Nothing compares with one that is not a number.
    Float(f64),
    /// Text; times are text that sorts as they do.
    Text(String),
    /// Several values.
    List(Vec<Value>),
    /// Values by name.
    Map(BTreeMap<String, Value>),
}

/// What a row can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Whether it is a map, whose values are named as `field.name`.
    pub is_map: bool,
}

/// Something with fields.
pub trait Row {
    /// Returns what a field holds; only fields that an expression names are asked for.
    fn field(&self, name: &str) -> Value;
}

/// An expression that is ready to be asked.
pub struct Filter {
    program: Program,
    environment: Arc<Env>,
    fields: Vec<&'static str>,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("fields", &self.fields).finish_non_exhaustive()
    }
}

impl Filter {
    /// Reads an expression over these fields.
    pub fn parse(source: &str, fields: &[Field]) -> Result<Self, Error> {
        if source.len() > MAX_SOURCE {
            return Err(Error::TooLarge(format!("{} bytes of at most {MAX_SOURCE}", source.len())));
        }
        if open_brackets(source) > MAX_OPEN {
            return Err(Error::TooLarge(format!("more than {MAX_OPEN} brackets in each other")));
        }
        let program = Program::compile(source).map_err(|error| Error::Syntax { said: error.to_string() })?;
        let mut reading = Reading { fields, bound: Vec::new(), read: Vec::new(), nodes: 0 };
        let steps = reading.steps(program.expression(), 0)?;
        if reading.nodes > MAX_NODES {
            return Err(Error::TooLarge(format!("{} parts of at most {MAX_NODES}", reading.nodes)));
        }
        if steps > MAX_STEPS {
            return Err(Error::TooLarge(format!("it could take {steps} steps of at most {MAX_STEPS}")));
        }
        let mut read = reading.read;
        read.sort_unstable();
        read.dedup();
        Ok(Self { program, environment: Arc::new(Env::stdlib()), fields: read })
    }

    /// Returns the fields that the expression names.
    pub fn fields(&self) -> &[&'static str] {
        &self.fields
    }

    /// Says whether the expression holds for a row.
    pub fn holds(&self, row: &dyn Row) -> Result<bool, Error> {
        let mut context = Context::with_env(Arc::clone(&self.environment));
        for name in &self.fields {
            context.add_variable_from_value(*name, engine_value(row.field(name)));
        }
        match self.program.execute(&context) {
            Ok(cel::Value::Bool(answer)) => Ok(answer),
            Ok(other) => Err(Error::NotBoolean(other.type_of().to_string())),
            Err(error) => Err(Error::Evaluation(said(&error))),
        }
    }
}

/// Says in words what the engine could not do.
fn said(error: &cel::ExecutionError) -> String {
    use cel::ExecutionError as E;
    match error {
        E::NoSuchKey(key) => format!("there is no `{key}`"),
        E::NoSuchOverload(overload) => {
            let name = overload.function().trim_matches('_');
            let types = overload.argument_types().join(" and ");
            if types == "double and double" {
                // Only what is not a number has no order.
                return format!("`{name}` of something that is not a number");
            }
            format!("`{name}` of {}", types.replace("null_type", "nothing"))
        }
        other => other.to_string(),
    }
}

fn engine_value(value: Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(value),
        Value::Int(value) => cel::Value::Int(value),
        Value::Float(value) => cel::Value::Float(value),
        Value::Text(text) => cel::Value::String(Arc::new(text)),
        Value::List(items) => cel::Value::List(Arc::new(items.into_iter().map(engine_value).collect())),
        Value::Map(fields) => {
            // A comparison with what is not a number must not hold, and `!=` would: so it is not there.
            let is_number = |value: &Value| !matches!(value, Value::Float(number) if number.is_nan());
            let fields = fields.into_iter().filter(|(_, value)| is_number(value));
            let map = fields.map(|(key, value)| (key.into(), engine_value(value))).collect();
            cel::Value::Map(cel::objects::Map { map: Arc::new(map) })
        }
    }
}

/// Returns how many brackets stand open at once, outside of texts.
fn open_brackets(source: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let mut quote = None;
    let mut bytes = source.bytes();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => {
                bytes.next();
            }
            (Some(end), _) if byte == end => quote = None,
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => {
                open += 1;
                most = most.max(open);
            }
            (None, b')' | b']' | b'}') => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// A walk over an expression before it ever runs.
struct Reading<'a> {
    fields: &'a [Field],
    /// Names that loops bind.
    bound: Vec<&'a str>,
    read: Vec<&'static str>,
    nodes: u64,
}

impl<'a> Reading<'a> {
    /// Returns the most steps that an expression can take, having checked its names.
    fn steps(&mut self, expression: &'a IdedExpr, loops: usize) -> Result<u64, Error> {
        self.nodes += 1;
        let inner = match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => 0,
            Expr::Ident(name) => {
                self.name(name)?;
                0
            }
            Expr::Select(select) => self.steps(&select.operand, loops)?,
            Expr::List(list) => self.sum(&list.elements, loops)?,
            Expr::Call(call) => {
                self.function(&call.func_name)?;
                let target = call.target.as_ref().map_or(Ok(0), |target| self.steps(target, loops))?;
                target.saturating_add(self.sum(&call.args, loops)?)
            }
            Expr::Comprehension(each_of) => {
                if loops >= MAX_LOOPS {
                    return Err(Error::TooLarge(format!("more than {MAX_LOOPS} loops in each other")));
                }
                let range = self.steps(&each_of.iter_range, loops)?;
                let times = match &each_of.iter_range.expr {
                    // The engine visits a map in no fixed order.
                    Expr::Ident(name) if self.is_map(name) => {
                        return Err(Error::NotAllowed("a loop over a map"));
                    }
                    Expr::List(list) => list.elements.len() as u64,
                    _ => LIST,
                };
                let before = self.bound.len();
                self.bound.extend([each_of.iter_var.as_str(), each_of.accu_var.as_str()]);
                self.bound.extend(each_of.iter_var2.as_deref());
                let start = self.steps(&each_of.accu_init, loops)?;
                let each = self
                    .steps(&each_of.loop_cond, loops + 1)?
                    .saturating_add(self.steps(&each_of.loop_step, loops + 1)?);
                let result = self.steps(&each_of.result, loops)?;
                self.bound.truncate(before);
                range.saturating_add(start).saturating_add(result).saturating_add(each.saturating_mul(times))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.steps(&entry.key, loops)?;
                    }
                }
                return Err(Error::NotAllowed("a map"));
            }
            Expr::Struct(_) => return Err(Error::NotAllowed("a message")),
        };
        Ok(inner.saturating_add(1))
    }

    fn sum(&mut self, parts: &'a [IdedExpr], loops: usize) -> Result<u64, Error> {
        parts.iter().try_fold(0_u64, |sum, part| Ok(sum.saturating_add(self.steps(part, loops)?)))
    }

    fn is_map(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name && field.is_map)
    }

    fn name(&mut self, name: &str) -> Result<(), Error> {
        if self.bound.contains(&name) {
            return Ok(());
        }
        let Some(field) = self.fields.iter().find(|field| field.name == name) else {
            let known = self.fields.iter().map(|field| field.name.to_owned()).collect();
            return Err(Error::UnknownField { name: name.to_owned(), known });
        };
        self.read.push(field.name);
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "reads as a step of the walk")]
    fn function(&self, name: &str) -> Result<(), Error> {
        // Operators and what loops are made of have names that nobody can write.
        let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
        if is_operator || FUNCTIONS.contains(&name) {
            return Ok(());
        }
        let known = FUNCTIONS.iter().map(|known| (*known).to_owned()).collect();
        Err(Error::UnknownFunction { name: name.to_owned(), known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[
        Field { name: "name", is_map: false },
        Field { name: "step", is_map: false },
        Field { name: "time", is_map: false },
        Field { name: "roles", is_map: false },
        Field { name: "metrics", is_map: true },
    ];

    struct One;

    impl Row for One {
        fn field(&self, name: &str) -> Value {
            let text = |text: &str| Value::Text(text.to_owned());
            match name {
                "step" => Value::Int(100),
                "time" => text("2026-02-01T00:00:00Z"),
                "roles" => Value::List(vec![text("owner"), text("log")]),
                "metrics" => Value::Map(
                    [
                        ("accuracy", Value::Float(0.95)),
                        ("a/b", Value::Float(0.5)),
                        ("count", Value::Int(3)),
                        ("loss", Value::Float(f64::NAN)),
                        ("worst", Value::Float(f64::INFINITY)),
                    ]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
                ),
                _ => Value::Null,
            }
        }
    }

    fn ask(source: &str) -> Result<bool, Error> {
        Filter::parse(source, FIELDS)?.holds(&One)
    }

    #[test]
    fn numbers_compare_whatever_their_type() {
        for holds in [
            "metrics.accuracy > 0.9",
            "metrics.accuracy > 0",
            "metrics.count >= 2.5",
            "metrics.count == 3.0",
            "step == 100.0",
            "step in [50, 100]",
            "metrics['a/b'] < 1",
            "metrics.worst > 1e300",
            "time > '2026-01-31'",
            "roles.exists(r, r == 'owner') && !('author' in roles)",
            "has(metrics.accuracy) && !has(metrics.other)",
            "name == null",
            "size(roles) == 2",
        ] {
            assert_eq!(ask(holds), Ok(true), "{holds}");
        }
        for fails in ["metrics.accuracy > 0.95", "name == 'x'", "step == '100'", "step < 99.5"] {
            assert_eq!(ask(fails), Ok(false), "{fails}");
        }
    }

    #[test]
    fn what_is_not_a_number_never_compares_true() {
        for source in ["> 0.0", "< 0.0", "== 0.0", "!= 0.0", ">= 0", "!= metrics.loss"] {
            for source in [format!("metrics.loss {source}"), format!("!(metrics.loss {source})")] {
                assert!(matches!(ask(&source), Err(Error::Evaluation(_))), "{source}");
            }
        }
    }

    #[test]
    fn what_is_absent_or_of_another_type_is_an_error_that_says_so() {
        let cases = [
            ("metrics.gone > 1", "there is no `gone`"),
            ("name > 'a'", "`>` of nothing and string"),
            ("step > 'a'", "`>` of int and string"),
        ];
        for (source, wanted) in cases {
            assert_eq!(ask(source), Err(Error::Evaluation(wanted.to_owned())), "{source}");
        }
        assert_eq!(ask("step + 1"), Err(Error::NotBoolean("int".to_owned())));
    }

    #[test]
    fn what_cannot_be_asked_is_refused_when_it_is_read() {
        let read = |source: &str| Filter::parse(source, FIELDS).map(|_| ()).unwrap_err();
        // An engine that finds out while it runs would not see a name behind an answer that is known already.
        for source in ["stepp > 1", "true || stepp > 1", "roles.exists(r, q == 'x')"] {
            assert!(matches!(read(source), Error::UnknownField { .. }), "{source}");
        }
        for source in ["now() > 1", "name.matches('x')", "false && name.lower() == 'x'"] {
            assert!(matches!(read(source), Error::UnknownFunction { .. }), "{source}");
        }
        assert!(matches!(read("step >"), Error::Syntax { .. }));
        assert!(matches!(read(""), Error::Syntax { .. }));
        assert!(matches!(read("metrics.exists(m, metrics[m] > 1)"), Error::NotAllowed(_)));
        assert!(matches!(read("{'a': 1}.a == 1"), Error::NotAllowed(_)));
        let deep = format!("{}step{} > 1", "(".repeat(33), ")".repeat(33));
        assert!(matches!(read(&deep), Error::TooLarge(_)));
        assert!(matches!(read(&"true && ".repeat(600)), Error::TooLarge(_)));
        assert!(matches!(read(&format!("{}true", "!".repeat(4096))), Error::TooLarge(_)));
        assert!(matches!(read(&format!("step in [{}1]", "1,".repeat(2040))), Error::TooLarge(_)));
        let in_each_other = "roles.all(a, roles.all(b, roles.all(c, a == b)))";
        assert!(matches!(read(in_each_other), Error::TooLarge(_)));
        let many = format!("roles.all(a, roles.all(b, a == b{}))", " || a == b".repeat(60));
        assert!(matches!(read(&many), Error::TooLarge(_)), "256 x 256 x 61 comparisons");
    }

    #[test]
    fn only_fields_that_are_named_are_asked_for() {
        let filter = Filter::parse("step > 1 && metrics.accuracy > 0.5 && step < 9", FIELDS).unwrap();
        assert_eq!(filter.fields(), ["metrics", "step"]);
    }
}
