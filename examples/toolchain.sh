# Sourced by scripts that call cargo: makes it work whatever HOME is, and names its directories for good.
# Expects `die MESSAGE` and LEDGER_TEST_CACHE; installs nothing.
# shellcheck shell=bash

command -v cargo >/dev/null || die "needs a Rust toolchain: cargo is not on PATH"
# A home that does not exist is not asked, since asking would make it.
if [[ -d ${HOME:-} ]] && cargo --version >/dev/null 2>&1; then
    export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
else
    # The toolchain is looked up under HOME, which may be another one today; it still lies beside its own cargo.
    beside=$(dirname -- "$(dirname -- "$(command -v cargo)")")
    if [[ -d $(dirname -- "$beside")/.rustup ]]; then
        export CARGO_HOME=${CARGO_HOME:-$beside} RUSTUP_HOME=${RUSTUP_HOME:-$(dirname -- "$beside")/.rustup}
    else
        export CARGO_HOME=${CARGO_HOME:-$LEDGER_TEST_CACHE/cargo}
    fi
    cargo --version >/dev/null || die "cargo does not start"
fi
# Downloaded crates need a place; a home that cannot be written has none.
mkdir -p -- "$CARGO_HOME" 2>/dev/null && [[ -w $CARGO_HOME ]] || export CARGO_HOME=$LEDGER_TEST_CACHE/cargo
