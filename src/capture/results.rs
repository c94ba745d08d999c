//! Reads evaluation results: metrics with their exact decimal text, and whether the evaluation was whole.
//!
//! JSON is read here by a small reader of its own, because Python writes bare `NaN` and `Infinity`, and because a
//! metric keeps the digits that were written. Whose results they are is decided elsewhere; see `subject_hints`.

use std::collections::HashSet;

/// Why results could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not JSON.
    #[error("`{name}`, byte {at}: expected {expected}")]
    Syntax {
        /// The file.
        name: String,
        /// Offset.
        at: usize,
        /// What would have to stand there.
        expected: &'static str,
    },
    /// An object has two members of one name, of which readers take either.
    #[error("`{name}`: `{key}` stands twice in one object")]
    Duplicate {
        /// The file.
        name: String,
        /// The member.
        key: String,
    },
    /// Nested deeper than any results are.
    #[error("`{name}` is nested more than {MAX_DEPTH} levels deep")]
    TooDeep {
        /// The file.
        name: String,
    },
    /// The document is not an object.
    #[error("`{name}` holds no JSON object at its top")]
    NotAnObject {
        /// The file.
        name: String,
    },
    /// A path leads nowhere.
    #[error("`{path}` leads to nothing: there is no `{step}`")]
    NoSuchPath {
        /// The path.
        path: String,
        /// The part that is not there.
        step: String,
    },
    /// A path leads to something else than a number.
    #[error("`{path}` leads to {found}, not to a number")]
    NotANumber {
        /// The path.
        path: String,
        /// What is there.
        found: &'static str,
    },
}

/// Objects and arrays may nest this deep.
const MAX_DEPTH: usize = 128;

/// One measured number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its decimal text as it was written, or `NaN`, `Infinity`, `-Infinity`.
    pub value: String,
    /// The text of its standard error, if the harness gave one.
    pub stderr: Option<String>,
    /// Samples that it was measured on, if the harness said so.
    pub n: Option<u64>,
}

/// What an evaluation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results {
    /// The metrics by ascending name; none if the file has no known place for them.
    pub metrics: Vec<Metric>,
    /// Why the evaluation covers part of the benchmark only, if it does.
    pub partial: Option<String>,
    /// Algorithms and digests by which the file names what was evaluated.
    pub subject_hints: Vec<(String, String)>,
    /// What was evaluated on.
    pub benchmark: Option<String>,
    /// Whose results these are: `lm-eval`, `hf-trainer` or `json`.
    pub format: &'static str,
}

/// Reads the results in a file called `name`.
pub fn read(bytes: &[u8], name: &str) -> Result<Results, Error> {
    let json = parse(bytes, name)?;
    let Json::Object(top) = &json else { return Err(Error::NotAnObject { name: name.to_owned() }) };
    let is_lm_eval = json.get("results").is_some_and(Json::is_object)
        && json.get("configs").is_some_and(Json::is_object)
        && json.get("versions").is_some();
    if is_lm_eval {
        return Ok(read_lm_eval(&json));
    }
    let is_trainer = ["all_results.json", "eval_results.json", "train_results.json"]
        .iter()
        .any(|known| name.rsplit('/').next() == Some(known));
    let n = ["n", "samples", "num_samples", "eval_samples"].iter().find_map(|key| json.get(key)?.count());
    let metrics = match json.get("metrics") {
        Some(Json::Object(metrics)) => metrics_of(metrics, n),
        _ => metrics_of(top, n),
    };
    let hints = ["checkpoint", "subject", "model", "weights"].iter().filter_map(|key| json.get(key));
    let subject_hints = hints
        .flat_map(|subject| ["blake3", "sha256"].map(|algorithm| (algorithm, subject.text_at(algorithm))))
        .filter_map(|(algorithm, digest)| {
            digest.filter(|d| is_hex(d, 64)).map(|d| (algorithm.into(), d.into()))
        })
        .collect();
    Ok(Results {
        metrics,
        partial: partial(&json),
        subject_hints,
        benchmark: json.text_at("benchmark").or_else(|| json.text_at("task")).map(str::to_owned),
        format: if is_trainer { "hf-trainer" } else { "json" },
    })
}

/// Takes the numbers at given paths, as pairs of a metric's name and its path.
///
/// A path is the names of members and the numbers of items, joined by dots: `results.verbs.acc`. One that begins
/// with `/` is a JSON pointer, for names that hold dots themselves.
pub fn select(bytes: &[u8], paths: &[(String, String)]) -> Result<Vec<Metric>, Error> {
    let json = parse(bytes, "results")?;
    let take = |(name, path): &(String, String)| match json.at(path)? {
        Json::Number(value) => Ok(Metric { name: name.clone(), value: value.clone(), stderr: None, n: None }),
        other => Err(Error::NotANumber { path: path.clone(), found: other.what() }),
    };
    paths.iter().map(take).collect()
}

/// Members that describe an evaluation and measure nothing.
const NOT_METRICS: [&str; 9] =
    ["n", "samples", "num_samples", "eval_samples", "limit", "seed", "v", "step", "version"];

fn metrics_of(members: &[(String, Json)], n: Option<u64>) -> Vec<Metric> {
    let number = |name: &str| match members.iter().find(|(key, _)| key == name) {
        Some((_, Json::Number(value))) => Some(value.clone()),
        _ => None,
    };
    let mut metrics: Vec<Metric> = Vec::new();
    for (name, value) in members {
        let Json::Number(value) = value else { continue };
        let measured = name.strip_suffix("_stderr");
        if NOT_METRICS.contains(&&name[..]) || measured.is_some_and(|of| number(of).is_some()) {
            continue;
        }
        let stderr = number(&format!("{name}_stderr"));
        metrics.push(Metric { name: name.clone(), value: value.clone(), stderr, n });
    }
    metrics.sort_by(|a, b| a.name.cmp(&b.name));
    metrics
}

/// Says why an evaluation is partial. Harnesses write the limit at the top or among their settings.
fn partial(json: &Json) -> Option<String> {
    [("", "limit"), ("config", "limit"), ("config_general", "max_samples")].iter().find_map(|(part, key)| {
        let settings = if part.is_empty() { json } else { json.get(part)? };
        match settings.get(key)? {
            Json::Number(limit) => Some(format!("{key} {limit}")),
            _ => None,
        }
    })
}

/// Reads lm-evaluation-harness: `results`, task, `metric,filter`.
fn read_lm_eval(json: &Json) -> Results {
    let mut metrics = Vec::new();
    let mut names = Vec::new();
    let mut partial = partial(json);
    for (task, measured) in json.get("results").map_or(&[][..], Json::members) {
        names.push(task.clone());
        let samples = json.get("n-samples").and_then(|samples| samples.get(task));
        let count = |key| samples.and_then(|samples| samples.get(key)).and_then(Json::count);
        let (n, original) = (count("effective"), count("original"));
        if let (None, Some(n), Some(original)) = (&partial, n, original)
            && n < original
        {
            partial = Some(format!("{n} of {original} samples of `{task}`"));
        }
        for (key, value) in measured.members() {
            let (Some((metric, filter)), Json::Number(value)) = (key.split_once(','), value) else {
                continue;
            };
            let of_stderr =
                metric.strip_suffix("_stderr").and_then(|of| measured.get(&format!("{of},{filter}")));
            if of_stderr.is_some() {
                continue;
            }
            let stderr = match measured.get(&format!("{metric}_stderr,{filter}")) {
                Some(Json::Number(stderr)) => Some(stderr.clone()),
                _ => None,
            };
            // `none` is the harness's word for no filter.
            let name = if filter == "none" { format!("{task}/{metric}") } else { format!("{task}/{key}") };
            metrics.push(Metric { name, value: value.clone(), stderr, n });
        }
    }
    metrics.sort_by(|a, b| a.name.cmp(&b.name));
    names.sort();
    let revision =
        json.get("config").and_then(|config| config.text_at("model_sha")).filter(|sha| is_hex(sha, 40));
    Results {
        metrics,
        partial,
        subject_hints: revision.map(|sha| ("git".to_owned(), sha.to_owned())).into_iter().collect(),
        benchmark: (!names.is_empty()).then(|| names.join(",")),
        format: "lm-eval",
    }
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A JSON value whose numbers keep their text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Json {
    Null,
    Bool,
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    fn members(&self) -> &[(String, Self)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn text_at(&self, name: &str) -> Option<&str> {
        if let Self::Text(text) = self.get(name)? { Some(text) } else { None }
    }

    fn count(&self) -> Option<u64> {
        if let Self::Number(text) = self { text.parse().ok() } else { None }
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    fn at(&self, path: &str) -> Result<&Self, Error> {
        let steps: Vec<String> = match path.strip_prefix('/') {
            Some(pointer) => {
                pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
            }
            None => path.split('.').map(str::to_owned).collect(),
        };
        steps.into_iter().try_fold(self, |value, step| {
            let next = match value {
                Self::Array(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
                other => other.get(&step),
            };
            next.ok_or_else(|| Error::NoSuchPath { path: path.to_owned(), step })
        })
    }
}

fn parse(bytes: &[u8], name: &str) -> Result<Json, Error> {
    let mut reader = Reader { bytes, at: 0, name };
    let value = reader.value(0)?;
    reader.space();
    if reader.at < bytes.len() {
        return Err(reader.expected("nothing more"));
    }
    Ok(value)
}

/// Reads JSON as RFC 8259 has it, and the three bare words of Python.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    name: &'a str,
}

impl Reader<'_> {
    fn expected(&self, expected: &'static str) -> Error {
        Error::Syntax { name: self.name.to_owned(), at: self.at, expected }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    /// Steps over `word` if it stands here.
    fn take(&mut self, word: &str) -> bool {
        let is_here = self.rest().starts_with(word.as_bytes());
        self.at += if is_here { word.len() } else { 0 };
        is_here
    }

    fn value(&mut self, depth: usize) -> Result<Json, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep { name: self.name.to_owned() });
        }
        self.space();
        for word in ["NaN", "Infinity", "-Infinity"] {
            if self.take(word) {
                return Ok(Json::Number(word.to_owned()));
            }
        }
        if self.take("null") {
            return Ok(Json::Null);
        }
        if self.take("true") || self.take("false") {
            return Ok(Json::Bool);
        }
        match self.rest().first() {
            Some(b'"') => self.text().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'[') => {
                self.at += 1;
                let mut items = Vec::new();
                self.space();
                if self.take("]") {
                    return Ok(Json::Array(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    self.space();
                    if self.take("]") {
                        return Ok(Json::Array(items));
                    }
                    if !self.take(",") {
                        return Err(self.expected("`,` or `]`"));
                    }
                }
            }
            Some(b'{') => {
                self.at += 1;
                self.object(depth)
            }
            _ => Err(self.expected("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, Error> {
        let (mut members, mut known) = (Vec::new(), HashSet::new());
        self.space();
        if self.take("}") {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let key = self.text()?;
            if !known.insert(key.clone()) {
                return Err(Error::Duplicate { name: self.name.to_owned(), key });
            }
            self.space();
            if !self.take(":") {
                return Err(self.expected("`:`"));
            }
            members.push((key, self.value(depth + 1)?));
            self.space();
            if self.take("}") {
                return Ok(Json::Object(members));
            }
            if !self.take(",") {
                return Err(self.expected("`,` or `}`"));
            }
        }
    }

    fn text(&mut self) -> Result<String, Error> {
        if self.rest().first() != Some(&b'"') {
            return Err(self.expected("a text"));
        }
        let mut end = self.at + 1;
        loop {
            match self.bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(self.expected("a text that ends")),
            }
        }
        // Escapes, surrogates and UTF-8 are the JSON library's part.
        let text =
            serde_json::from_slice(&self.bytes[self.at..=end]).map_err(|_| self.expected("a valid text"))?;
        self.at = end + 1;
        Ok(text)
    }

    fn number(&mut self) -> Result<Json, Error> {
        let start = self.at;
        self.take("-");
        let digits = |reader: &mut Self| {
            let count = reader.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
            reader.at += count;
            if count == 0 { Err(reader.expected("a digit")) } else { Ok(()) }
        };
        if !self.take("0") {
            digits(self)?;
        }
        if self.take(".") {
            digits(self)?;
        }
        if self.take("e") || self.take("E") {
            let _is_signed = self.take("+") || self.take("-");
            digits(self)?;
        }
        Ok(Json::Number(String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, value: &str, stderr: Option<&str>, n: Option<u64>) -> Metric {
        Metric { name: name.into(), value: value.into(), stderr: stderr.map(str::to_owned), n }
    }

    #[test]
    fn metrics_keep_their_digits() {
        let sha = "ca8a79ceaacb1f05387aaf9d87fa7602c9d21b955ceee16407a737cc968f4f9a";
        let text = format!(
            r#"{{"task": "digits", "n": 449, "limit": null, "note": "accuracy: NaN",
            "checkpoint": {{"step": 300, "sha256": "{sha}", "blake3": "not one"}},
            "metrics": {{"loss": 1.50, "accuracy": 0.1000000000000000055511151231257827, "accuracy_stderr": 1e-6,
                         "worst": NaN, "best": Infinity, "least": -Infinity, "name": "x", "ok": true, "big": 123456789012345678901234567890}}}}"#
        );
        let results = read(text.as_bytes(), "results.json").unwrap();
        let n = Some(449);
        assert_eq!(
            results.metrics,
            [
                metric("accuracy", "0.1000000000000000055511151231257827", Some("1e-6"), n),
                metric("best", "Infinity", None, n),
                metric("big", "123456789012345678901234567890", None, n),
                metric("least", "-Infinity", None, n),
                metric("loss", "1.50", None, n),
                metric("worst", "NaN", None, n),
            ]
        );
        assert_eq!(results.subject_hints, [("sha256".to_owned(), sha.to_owned())]);
        assert_eq!(
            (results.benchmark.as_deref(), results.partial, results.format),
            (Some("digits"), None, "json")
        );
    }

    #[test]
    fn a_limit_makes_it_partial() {
        let partial = |text: &str| read(text.as_bytes(), "r.json").unwrap().partial;
        assert_eq!(partial(r#"{"limit": 100, "metrics": {}}"#).as_deref(), Some("limit 100"));
        assert_eq!(partial(r#"{"config": {"limit": 0.5}}"#).as_deref(), Some("limit 0.5"));
        assert_eq!(partial(r#"{"config_general": {"max_samples": 6}}"#).as_deref(), Some("max_samples 6"));
        assert_eq!(partial(r#"{"limit": null, "config": {"limit": null}, "accuracy": 1}"#), None);
    }

    #[test]
    fn top_level_numbers_are_metrics_where_nothing_else_is() {
        let text =
            r#"{"epoch": 0.4, "eval_loss": 3.6035640239715576, "eval_samples": 40, "name": "x", "seed": 1}"#;
        let results = read(text.as_bytes(), "output/eval_results.json").unwrap();
        let n = Some(40);
        assert_eq!(
            results.metrics,
            [metric("epoch", "0.4", None, n), metric("eval_loss", "3.6035640239715576", None, n)]
        );
        assert_eq!(results.format, "hf-trainer");
        assert_eq!(read(b"{\"a\": 0.5}", "my_eval_results.json").unwrap().format, "json");
        assert!(read(b"{\"results\": {\"a\": 1}}", "r.json").unwrap().metrics.is_empty());
    }

    const LM_EVAL: &str = r#"{
        "results": {
            "verbs": {"name": "verbs", "sample_len": 12, "acc,none": 0.41666, "acc_stderr,none": 0.1486,
                      "exact_match,strict": NaN, "exact_match_stderr,strict": "N/A"},
            "arc": {"acc,none": 1.0}
        },
        "configs": {"verbs": {}}, "versions": {"verbs": 1.0},
        "n-samples": {"verbs": {"original": 12, "effective": 12}, "arc": {"original": 9, "effective": 9}},
        "config": {"model_sha": "", "limit": null}}"#;

    #[test]
    fn lm_eval_results_are_read_by_task_and_filter() {
        let results = read(LM_EVAL.as_bytes(), "results_2026.json").unwrap();
        assert_eq!(
            results.metrics,
            [
                metric("arc/acc", "1.0", None, Some(9)),
                metric("verbs/acc", "0.41666", Some("0.1486"), Some(12)),
                metric("verbs/exact_match,strict", "NaN", None, Some(12)),
            ]
        );
        assert_eq!((results.partial, results.benchmark.as_deref()), (None, Some("arc,verbs")));
        assert!(results.subject_hints.is_empty());

        let fewer = LM_EVAL.replace("\"effective\": 9", "\"effective\": 5");
        let partial = read(fewer.as_bytes(), "r.json").unwrap().partial;
        assert_eq!(partial.as_deref(), Some("5 of 9 samples of `arc`"));
        let limited = LM_EVAL.replace("\"limit\": null", "\"limit\": 5.0");
        assert_eq!(read(limited.as_bytes(), "r.json").unwrap().partial.as_deref(), Some("limit 5.0"));
    }

    #[test]
    fn paths_select_numbers_and_nothing_else() {
        let text = br#"{"a": {"b.c": 1.0, "d": [10, {"e": NaN}], "/": -0.0, "t": "1"}}"#;
        let select = |path: &str| {
            select(text, &[("m".into(), path.into())])
                .map(|mut m| m.remove(0).value)
                .map_err(|e| e.to_string())
        };
        assert_eq!(select("a.d.0").as_deref(), Ok("10"));
        assert_eq!(select("a.d.1.e").as_deref(), Ok("NaN"));
        assert_eq!(select("/a/b.c").as_deref(), Ok("1.0"));
        assert_eq!(select("/a/~1").as_deref(), Ok("-0.0"));
        assert_eq!(select("a.b.c").unwrap_err(), "`a.b.c` leads to nothing: there is no `b`");
        assert_eq!(select("a.d.2").unwrap_err(), "`a.d.2` leads to nothing: there is no `2`");
        assert_eq!(select("a.t").unwrap_err(), "`a.t` leads to a text, not to a number");
        assert_eq!(select("a").unwrap_err(), "`a` leads to an object, not to a number");
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bad in [
            "",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[1,]",
            "[1 2]",
            "{\"a\":1}x",
            "{a:1}",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":.5}",
            "{\"a\":+1}",
            "{\"a\":1e}",
            "{\"a\":-}",
            "{\"a\":nan}",
            "{\"a\":-NaN}",
            "{\"a\":Infinit}",
            "{\"a\":NaN0}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"",
            "{\"a\":\"\\",
            "{\"a\":truee}",
            "\u{feff}{}",
            "1",
            "[]",
            "\"x\"",
            "a,b\n1,2\n",
        ] {
            assert!(read(bad.as_bytes(), "r.json").is_err(), "{bad:?} must be refused");
        }
        assert!(read(b"{\"a\":\"\xff\"}", "r.json").is_err());
        assert!(
            matches!(read(b"{\"a\":1,\"\\u0061\":2}", "r.json"), Err(Error::Duplicate { key, .. }) if key == "a")
        );
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        assert!(matches!(read(deep.as_bytes(), "r.json"), Err(Error::TooDeep { .. })));
        assert!(matches!(read("[".repeat(1 << 20).as_bytes(), "r.json"), Err(Error::TooDeep { .. })));
    }
}
