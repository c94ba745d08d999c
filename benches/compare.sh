#!/usr/bin/env bash
# Runs this program and what people use today side by side on the same files, and prints a Markdown table of ratios.
# usage: compare.sh [ROWS]    ROWS: words among big both many record again freeze million flat; all by default
#   LEDGER=BINARY   instead of a release build       RUNS=5          interleaved runs, of which the median counts
#   FILES=4 SIZE=1G of the large files               MANY=20000      files of 8 KiB      RECORD=100000  in 1,000 folders
#   MILLION=1000000 files of 100 bytes               DATA=DIR        where files are made and kept for the next time
#   OVERWRITE=1     writes the table into docs/performance.md, too
# Peers are installed once, each into a place of its own under ${LEDGER_TEST_CACHE:-.cache}; one that cannot be had
# is skipped by name. A quick look: RUNS=1 SIZE=64M MANY=500 RECORD=2000 MILLION=5000 benches/compare.sh
set -euo pipefail

benches=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
repository=$(dirname -- "$benches")
export LEDGER_TEST_CACHE=${LEDGER_TEST_CACHE:-$repository/.cache}
mkdir -p -- "$LEDGER_TEST_CACHE"
cache=$(realpath -- "$LEDGER_TEST_CACHE")
# The version whose numbers are quoted; its core is the one that this program is built with.
b3sum_version=1.8.7

skip() {
    printf 'compare.sh: skipped: %s\n' "$1" >&2
}

ledger=${LEDGER:-}
if [[ -z $ledger ]]; then
    cargo build --quiet --release --locked --manifest-path "$repository/Cargo.toml" --bin ledger
    ledger=${CARGO_TARGET_DIR:-$repository/target}/release/ledger
fi
export LEDGER
LEDGER=$(realpath -- "$ledger")

export B3SUM='' DVC='' MODEL_SIGNING=''
root=$cache/b3sum-$b3sum_version
if [[ -x $root/bin/b3sum ]] ||
    cargo install --quiet --locked --root "$root" --version "$b3sum_version" b3sum >&2; then
    B3SUM=$root/bin/b3sum
else
    skip 'b3sum'
fi
if venv=$("$repository/examples/venv.sh" "$benches/peers/dvc.lock"); then
    DVC=$venv/bin/dvc
else
    skip 'dvc'
fi
if venv=$("$repository/examples/venv.sh" "$benches/peers/model-signing.lock"); then
    MODEL_SIGNING=$venv/bin/model_signing
else
    skip 'model-signing'
fi

exec python3 "$benches/compare.py" "$repository" "$@"
