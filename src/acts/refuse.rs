//! What is not taken in: files that would be kept with a secret in them, and pointers in the place of data.

use std::path::Path;

use crate::capture::config::Value;
use crate::capture::dataset;
use crate::capture::environment::{self, Secret, Where};
use crate::capture::walk::Tree;

use super::Error;

/// Refuses a file that is to be stored as it is, if it holds a secret: what is in the log stays there.
pub(super) fn refuse_secrets(name: &str, text: &str) -> Result<(), Error> {
    refuse_found(name, &environment::find_secrets(text))
}

/// Refuses a config that holds a secret by its shape or by its name.
pub(super) fn refuse_secret_values(name: &str, value: &Value) -> Result<(), Error> {
    let mut found = Vec::new();
    secrets_in(value, &mut String::new(), &mut found);
    refuse_found(name, &found)
}

/// Finds values that are secrets by their shape, or by the key that they stand under.
fn secrets_in(value: &Value, path: &mut String, found: &mut Vec<Secret>) {
    let length = path.len();
    let mut below = |key: &str, value: &Value, found: &mut Vec<Secret>| {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        secrets_in(value, path, found);
        path.truncate(length);
    };
    match value {
        Value::Map(fields) => fields.iter().for_each(|(key, value)| below(key, value, found)),
        Value::List(items) => {
            for (item, at) in items.iter().zip(0..) {
                below(&format!("{at}"), item, found);
            }
        }
        Value::Text(text) => {
            // The last key decides: what stands under `auth` is not all secret.
            let key = path.rsplit('.').find(|key| key.parse::<usize>().is_err()).unwrap_or_default();
            if let Some(what) = environment::named_secret(key, text) {
                found.push(Secret { place: Where::Key(path.clone()), what });
            }
        }
        _ => {}
    }
}

fn refuse_found(name: &str, found: &[Secret]) -> Result<(), Error> {
    if found.is_empty() {
        return Ok(());
    }
    Err(Error::Secret { name: name.to_owned(), found: found.iter().map(ToString::to_string).collect() })
}

/// Refuses pointers: a digest of one would be taken for the data's.
pub(super) fn refuse_pointers(tree: &Tree, path: &Path) -> Result<(), Error> {
    let pointers = dataset::pointers(tree, path)?;
    if pointers.is_empty() { Ok(()) } else { Err(Error::Pointer { pointers }) }
}
