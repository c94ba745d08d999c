//! What is not taken in: files that would be kept with a secret in them, paths of the machine in reasons, and
//! pointers in the place of data.

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

/// Leaves absolute paths out of a reason that everybody will read who gets the ledger.
///
/// A path ends at the quote that it began with, or else at a blank.
pub(super) fn without_paths(reason: &str) -> String {
    let (mut told, mut rest, mut before) = (String::new(), reason, ' ');
    while let Some(letter) = rest.chars().next() {
        let is_quote = matches!(before, '`' | '\'' | '"');
        if letter == '/' && (is_quote || before == ' ' || before == '(' || before == '=') {
            let ends = |other: char| if is_quote { other == before } else { other.is_whitespace() };
            told.push_str("<path>");
            rest = &rest[rest.find(ends).unwrap_or(rest.len())..];
            before = '/';
        } else {
            told.push(letter);
            rest = &rest[letter.len_utf8()..];
            before = letter;
        }
    }
    told
}

/// Refuses pointers: a digest of one would be taken for the data's.
pub(super) fn refuse_pointers(tree: &Tree, path: &Path) -> Result<(), Error> {
    let pointers = dataset::pointers(tree, path)?;
    if pointers.is_empty() { Ok(()) } else { Err(Error::Pointer { pointers }) }
}

#[cfg(test)]
mod tests {
    use super::without_paths;

    #[test]
    fn a_reason_names_no_place_of_a_machine() {
        for (reason, told) in [
            ("`/home/kim/my runs`: gone", "`<path>`: gone"),
            ("failed to resolve path '/a/b': no such file", "failed to resolve path '<path>': no such file"),
            ("/a/b is odd", "<path> is odd"),
            ("lib/sub is and/or was dirty", "lib/sub is and/or was dirty"),
            ("`/never closed", "`<path>"),
            ("", ""),
        ] {
            assert_eq!(without_paths(reason), told);
        }
    }
}
