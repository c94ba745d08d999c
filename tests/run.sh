#!/usr/bin/env bash
# Installs what the tests need and runs them all, printing the seconds of each section; stops at the first failure.
# usage: run.sh    LEDGER=BINARY replaces the static build where a script, not cargo, runs the binary;
#                  CARGO_TARGET_DIR and LEDGER_TEST_CACHE are honoured; the last line counts what passed
set -euo pipefail

tests=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
repository=$(dirname -- "$tests")
cd -- "$repository"
exec </dev/null 3>&1
umask 022

export LEDGER_TEST_CACHE
LEDGER_TEST_CACHE=$(realpath -m -- "${LEDGER_TEST_CACHE:-$repository/.cache}")
mkdir -p -- "$LEDGER_TEST_CACHE"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/ledger-tests.XXXXXX")
given=${LEDGER:+$(realpath -- "$LEDGER")}
section='' passed=0

die() {
    printf 'run.sh: %s\n' "$1" >&2
    exit 1
}

# Adds what a section's log says has passed: our own scripts, cargo's runner, nextest.
count() {
    local sum
    sum=$(sed -n \
        -e 's/^check ok: .*/1/p' \
        -e 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' \
        -e 's/^ *Summary \[.*tests\{0,1\} run: \([0-9]*\) passed.*/\1/p' "$1" | paste -sd+ -)
    printf '%s\n' "$((${sum:-0}))"
}

finish() {
    local code=$?
    trap - EXIT
    if [[ $code == 0 ]]; then
        # What tests have found out and want to be seen; a runner hides what passing tests print.
        [[ ! -s $scratch/figures ]] || sort -u -- "$scratch/figures" >&3
        rm -rf -- "$scratch"
        printf '%s passed, 0 failed\n' "$passed" >&3
    else
        [[ -z $section ]] || tail -n 200 -- "$scratch/$section.log" >&3 || true
        printf 'run.sh: section %s failed with exit code %s; its log: %s\n' \
            "${section:-none}" "$code" "$scratch/$section.log" >&3
        printf '%s passed, 1 failed\n' "$passed" >&3
    fi
    exit "$code"
}
trap finish EXIT

# section NAME FUNCTION: the function runs in this shell and not in a condition, so that `set -e` holds inside it.
section() {
    local started=$SECONDS more
    section=$1
    printf 'section %s\n' "$section" >&3
    "$2" >"$scratch/$section.log" 2>&1
    more=$(count "$scratch/$section.log")
    passed=$((passed + more))
    grep -h -e '^skipped' -e '^damages tried: ' -e '^disagreements between the two readers: ' -- "$scratch/$section.log" >&3 || true
    printf '%s %s s, %s passed\n' "$section" "$((SECONDS - started))" "$more" >&3
    section=''
}

as_root() {
    if [[ $(id -u) == 0 ]]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    elif command -v sudo >/dev/null; then
        sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
    else
        die "missing packages need root or sudo: $*"
    fi
}

tools() {
    local missing=()
    command -v git >/dev/null || missing+=(git)
    command -v cc >/dev/null || missing+=(gcc libc6-dev)
    command -v go >/dev/null || missing+=(golang-go)
    [[ -d /usr/share/gocode/src/golang.org/x/mod/sumdb/note ]] || missing+=(golang-golang-x-mod-dev)
    command -v b3sum >/dev/null || missing+=(b3sum)
    command -v sha256sum >/dev/null || missing+=(coreutils)
    command -v flock >/dev/null && command -v setpriv >/dev/null || missing+=(util-linux)
    command -v openssl >/dev/null || missing+=(openssl)
    command -v ssh-keygen >/dev/null || missing+=(openssh-client)
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
    if [[ ${#missing[@]} -gt 0 ]]; then
        as_root apt-get update -qq
        # Releases older than the package get the same program from its source.
        if [[ " ${missing[*]} " == *' b3sum '* ]] && ! apt-cache show b3sum >/dev/null 2>&1; then
            cargo install b3sum --version 1.8.7 --locked --root "$LEDGER_TEST_CACHE/b3sum"
            for i in "${!missing[@]}"; do
                [[ ${missing[i]} != b3sum ]] || unset 'missing[i]'
            done
        fi
        [[ ${#missing[@]} == 0 ]] || as_root apt-get install -y --no-install-recommends "${missing[@]}"
    fi
    git --version
    go version
    b3sum --version
    python3 --version
    cargo --version
}

environments() {
    examples/venv.sh examples/digits/requirements.lock
    LEDGER_TEST_PYTHON=$(examples/venv.sh tests/foreign/requirements.lock)/bin/python
    export LEDGER_TEST_PYTHON
    "$LEDGER_TEST_PYTHON" -c 'import cbor2, cwt, numpy, safetensors, scitt_cose, yaml'
    READER_PYTHON=$(examples/venv.sh store-format/reader/requirements.lock)/bin/python
    "$READER_PYTHON" -c 'import blake3, cbor2, cryptography'
}

# From here on nothing of the user's reaches a test: no settings, keys, current run, rank or git configuration.
# It comes after the package installers, which need their own settings.
hermetic() {
    local name
    for name in $(compgen -e); do
        case $name in
        LEDGER_TEST_CACHE | LEDGER_TEST_PYTHON) ;;
        LEDGER | LEDGER_* | XDG_* | GIT_* | PYTHON* | RANK | SLURM_* | OMPI_* | PMI_*) unset "$name" ;;
        esac
    done
    mkdir -p -- "$scratch/home" "$scratch/tmp"
    export HOME=$scratch/home TMPDIR=$scratch/tmp
    export LEDGER_TEST_FIGURES=$scratch/figures
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
    export LC_ALL=C.UTF-8 TZ=UTC NO_COLOR=1 CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never
}

static_build() {
    LEDGER=${given:-$(.ci/release)}
    export LEDGER
    "$LEDGER" --version
}

format() {
    cargo fmt --version >/dev/null 2>&1 || { echo 'skipped: rustfmt is not installed' && return; }
    cargo fmt --all --check
}

lints() {
    cargo clippy --version >/dev/null 2>&1 || { echo 'skipped: clippy is not installed' && return; }
    cargo clippy "${profile[@]}" --all-targets -- -D warnings
}

docs() {
    RUSTDOCFLAGS='-D warnings' cargo doc "${profile[@]}" --no-deps
}

cargo_tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run "${profile[@]}"
    else
        cargo test "${profile[@]}" --lib --bins --tests --examples
    fi
    cargo test "${profile[@]}" --doc
}

quickstart() {
    # shellcheck source=check.sh
    . "$tests/check.sh"
    expect 0 'quickstart' examples/quickstart.sh
    printf '%s\n' "$said"
    first=$(tail -n 1 <<<"$answer")
    [[ $first == /*/.ledger && -d $first ]] || fail 'its last line is not the path of a ledger'
    ok 'its last line is the path of a ledger'

    cd /
    expect 0 'quickstart again, from another directory, without a home' \
        env -i PATH="$PATH" HOME=/nonexistent TMPDIR="$TMPDIR" LEDGER="$LEDGER" LEDGER_TEST_CACHE="$LEDGER_TEST_CACHE" \
        "$repository/examples/quickstart.sh"
    second=$(tail -n 1 <<<"$answer")
    [[ -d $second && $second != "$first" ]] || fail 'the second quickstart made no ledger of its own'
    ok 'the second quickstart has a ledger of its own'
    expect 0 'the first ledger is as it was' bash -c '. "$1/../../env" && cd "$1/.." && ledger verify out/step-300' - "$first"
    cd -- "$repository"
    expect 1 'the quickstarts leave no home behind' test -e /nonexistent
}

aftermath() {
    "$tests/quickstart_after.sh" "$first"
}

foreign() {
    "$tests/foreign.sh" "$first" "$LEDGER_TEST_PYTHON"
}

drills() {
    "$tests/drills.sh" "$LEDGER"
}

reader() {
    "$tests/reader.sh" "$first" "$READER_PYTHON"
}

slurm() {
    "$tests/slurm.sh" "$LEDGER"
}

alone() {
    "$tests/chroot.sh" "$LEDGER"
}

# shellcheck source=../examples/toolchain.sh
. examples/toolchain.sh
PATH=$LEDGER_TEST_CACHE/b3sum/bin:$PATH
# One list of flags for every cargo call, so that each dependency is built once.
export RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }-C target-feature=+crt-static"
profile=(--release --locked --target "$(rustc -vV | sed -n 's/^host: //p')")

section tools tools
section environments environments
hermetic
section build static_build
section format format
section lints lints
section docs docs
section tests cargo_tests
section quickstart quickstart
section aftermath aftermath
section foreign foreign
section drills drills
section reader reader
section slurm slurm
section chroot alone
