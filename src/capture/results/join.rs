//! Several files of one evaluation as one set of results.
//!
//! Files that say the same of one thing agree; files that differ are not results of one evaluation, and which of
//! them is meant is not guessed. So the order in which files are named decides nothing.

use std::collections::BTreeMap;

use super::{Error, Results};

/// Joins what files say, each with its name; `None` if there is none.
pub fn join(parts: Vec<(String, Results)>) -> Result<Option<Results>, Error> {
    let mut parts = parts.into_iter();
    let Some((first, mut joined)) = parts.next() else { return Ok(None) };
    let mut metrics: BTreeMap<String, String> = BTreeMap::new();
    let mut tasks = metrics.clone();
    let mut told: Vec<String> = joined.partial.take().into_iter().collect();
    let mut names: Vec<String> = joined.benchmark.take().into_iter().collect();
    metrics.extend(joined.metrics.iter().map(|metric| (metric.name.clone(), first.clone())));
    tasks.extend(joined.tasks.iter().map(|task| (task.name.clone(), first.clone())));
    for (name, results) in parts {
        let differ =
            |what: String, from: &str| Error::Conflict { what, first: from.to_owned(), second: name.clone() };
        if results.format != joined.format {
            return Err(differ("whose results they are".to_owned(), &first));
        }
        if results.harness != joined.harness {
            return Err(differ("the harness".to_owned(), &first));
        }
        for metric in results.metrics {
            match joined.metrics.iter().find(|known| known.name == metric.name) {
                Some(known) if *known == metric => {}
                Some(_) => return Err(differ(format!("`{}`", metric.name), &metrics[&metric.name])),
                None => {
                    metrics.insert(metric.name.clone(), name.clone());
                    joined.metrics.push(metric);
                }
            }
        }
        for task in results.tasks {
            match joined.tasks.iter().find(|known| known.name == task.name) {
                Some(known) if *known == task => {}
                Some(_) => return Err(differ(format!("what `{}` is", task.name), &tasks[&task.name])),
                None => {
                    tasks.insert(task.name.clone(), name.clone());
                    joined.tasks.push(task);
                }
            }
        }
        for (what, known, new) in [
            ("decoding", &mut joined.decoding, results.decoding),
            ("seeds", &mut joined.seeds, results.seeds),
        ] {
            for (key, value) in new {
                if known.get(&key).is_some_and(|known| *known != value) {
                    return Err(differ(format!("{what} `{key}`"), &first));
                }
                known.insert(key, value);
            }
        }
        for hint in results.hints {
            if !joined.hints.contains(&hint) {
                joined.hints.push(hint);
            }
        }
        told.extend(results.partial.filter(|reason| !told.contains(reason)));
        names.extend(results.benchmark.filter(|name| !names.contains(name)));
        joined.reported_by = joined.reported_by.or(results.reported_by);
    }
    told.sort();
    names.sort();
    joined.partial = super::reasons(told);
    joined.benchmark = (!names.is_empty()).then(|| names.join(","));
    Ok(Some(joined.sorted()))
}

#[cfg(test)]
mod tests {
    use super::super::{Document, read};
    use super::*;

    fn of(text: &str, name: &str) -> (String, Results) {
        match read(text.as_bytes(), name).unwrap() {
            Document::Results(results) => (name.to_owned(), *results),
            Document::Claims(claims) => panic!("{claims:?}"),
        }
    }

    #[test]
    fn files_that_agree_are_one_whatever_their_order() {
        let a = of(r#"{"task": "x", "limit": 3, "seed": 1, "metrics": {"a": 1.0, "c": 3}}"#, "a.json");
        let b = of(r#"{"task": "w", "seed": 1, "metrics": {"b": 2, "a": 1.0}}"#, "b.json");
        let one = join(vec![a.clone(), b.clone()]).unwrap().unwrap();
        assert_eq!(Some(&one), join(vec![b, a]).unwrap().as_ref());
        let names: Vec<_> = one.metrics.iter().map(|metric| &*metric.name).collect();
        assert_eq!(
            (names, one.benchmark.as_deref(), one.partial.as_deref()),
            (vec!["a", "b", "c"], Some("w,x"), Some("limit 3"))
        );
        assert_eq!(join(Vec::new()).unwrap(), None);
    }

    #[test]
    fn files_that_differ_are_told() {
        let join = |a: &str, b: &str| {
            let parts = vec![of(a, "a.json"), of(b, "b.json")];
            join(parts).map(|_| ()).unwrap_err().to_string()
        };
        let n = r#"{"n": 2, "metrics": {"a": 1.0}}"#;
        assert_eq!(
            join(r#"{"metrics": {"a": 1.0}}"#, r#"{"metrics": {"a": 1}}"#),
            "`a.json` and `b.json` differ in `a`"
        );
        assert_eq!(join(r#"{"metrics": {"a": 1.0}}"#, n), "`a.json` and `b.json` differ in `a`");
        assert_eq!(join(r#"{"seed": 1}"#, r#"{"seed": 2}"#), "`a.json` and `b.json` differ in seeds `seed`");
        let log = r#"{"status": "success", "eval": {"task": "t", "model": "m"}, "results": {}}"#;
        assert_eq!(join(n, log), "`a.json` and `b.json` differ in whose results they are");
        let other = log.replace("\"model\"", "\"packages\": {\"inspect_ai\": \"1\"}, \"model\"");
        assert_eq!(join(log, &other), "`a.json` and `b.json` differ in the harness");
        let other = log.replace("\"model\"", "\"task_version\": 2, \"model\"");
        assert_eq!(join(log, &other), "`a.json` and `b.json` differ in what `t` is");
    }
}
