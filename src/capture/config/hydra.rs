//! What Hydra leaves beside a job: which config a directory means, and how its values could be resolved.
//!
//! Layout (hydra.cc, "Output/Working directory"): `.hydra/config.yaml` is the composed config with its
//! interpolations as they stand, `.hydra/overrides.yaml` the list of overrides, `.hydra/hydra.yaml` Hydra's own
//! settings, full of paths of the machine, of which only the job's name is read. A multirun has a directory for
//! each job and `multirun.yaml`.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{Format, Value, read};

/// Settings and overrides are small.
const MAX_SIZE: u64 = 4 << 20;

/// What a path that is given as a config stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meant {
    /// This file.
    File(PathBuf),
    /// One of several jobs, each with its own config.
    Multirun(Vec<PathBuf>),
}

/// A job of Hydra's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// The application, as `train`, where it is known.
    pub app: Option<String>,
    /// What was given on the command line, in its order.
    pub overrides: Vec<String>,
}

/// Finds the config that a directory of a job stands for; a path that is no such directory stands for itself.
pub fn meant(path: &Path) -> Meant {
    if !path.is_dir() {
        return Meant::File(path.to_owned());
    }
    if path.join("multirun.yaml").is_file() {
        let mut jobs: Vec<PathBuf> = fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|job| job.join(".hydra/config.yaml").is_file())
            .collect();
        jobs.sort_by_key(|job| (job.as_os_str().len(), job.clone()));
        return Meant::Multirun(jobs);
    }
    let inside = if path.file_name().is_some_and(|name| name == ".hydra") {
        path.join("config.yaml")
    } else {
        path.join(".hydra/config.yaml")
    };
    Meant::File(if inside.is_file() { inside } else { path.to_owned() })
}

/// Says which job a config belongs to: one in `.hydra` to that job, one with a list of defaults to its
/// application; `None` for any other.
pub fn job_of(config: &Path, value: &Value) -> Option<Job> {
    let dir = config.parent()?;
    if dir.file_name().is_some_and(|name| name == ".hydra") {
        let overrides = match yaml(&dir.join("overrides.yaml")) {
            Some(Value::List(items)) => items.into_iter().filter_map(text).collect(),
            _ => Vec::new(),
        };
        let name = ["hydra", "job", "name"]
            .iter()
            .try_fold(yaml(&dir.join("hydra.yaml"))?, |value, key| field(value, key));
        return Some(Job { app: name.and_then(text), overrides });
    }
    has_defaults(value).then(Job::default)
}

/// Tells whether a config is only where Hydra begins: its `defaults` list names what it is composed of.
pub fn has_defaults(value: &Value) -> bool {
    matches!(value, Value::Map(fields) if matches!(fields.get("defaults"), Some(Value::List(_))))
}

fn yaml(path: &Path) -> Option<Value> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
    read(&bytes, Format::Yaml, "").ok().map(|read| read.value)
}

fn field(value: Value, key: &str) -> Option<Value> {
    match value {
        Value::Map(mut fields) => fields.remove(key),
        _ => None,
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/configs/hydra").join(name)
    }

    #[test]
    fn a_job_s_directory_stands_for_its_config() {
        let job = fixture("outputs/2026-11-30/18-35-44");
        let config = job.join(".hydra/config.yaml");
        for path in [&job, &job.join(".hydra"), &config] {
            assert_eq!(meant(path), Meant::File(config.clone()));
        }
        let sweep = fixture("multirun/2026-11-30/18-35-45");
        assert_eq!(meant(&sweep), Meant::Multirun(vec![sweep.join("0"), sweep.join("1")]));
        assert_eq!(meant(&sweep.join("1")), Meant::File(sweep.join("1/.hydra/config.yaml")));
        assert_eq!(meant(&fixture("conf")), Meant::File(fixture("conf")));
    }

    #[test]
    fn a_job_tells_its_application_and_overrides() {
        let config = fixture("outputs/2026-11-30/18-35-44/.hydra/config.yaml");
        let job = job_of(&config, &Value::Null).unwrap();
        assert_eq!(job.app.as_deref(), Some("train"));
        assert_eq!(job.overrides, ["optim=sgd", "optim.lr=0.05", "+tags=[a,b]"]);
        let primary = fixture("conf/config.yaml");
        let value = yaml(&primary).unwrap();
        assert!(has_defaults(&value));
        assert_eq!(job_of(&primary, &value), Some(Job::default()));
        assert_eq!(
            job_of(&fixture("conf/optim/sgd.yaml"), &yaml(&fixture("conf/optim/sgd.yaml")).unwrap()),
            None
        );
    }
}
