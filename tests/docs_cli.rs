//! `docs/cli.md` is the program's own help. `LEDGER_OVERWRITE=1` writes it anew.
#![expect(clippy::disallowed_methods, reason = "the page is rewritten on request")]

use std::path::Path;

#[test]
fn the_reference_page_is_the_help() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md");
    let expected = ledger::cli::reference();
    if std::env::var_os("LEDGER_OVERWRITE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &expected).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    for (at, (found, expected)) in page.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "docs/cli.md line {}; LEDGER_OVERWRITE=1 rewrites it", at + 1);
    }
    assert_eq!(page, expected, "docs/cli.md is cut short; LEDGER_OVERWRITE=1 rewrites it");
}
