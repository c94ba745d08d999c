#!/usr/bin/env bash
# Builds `ledger` and does the main job once: freeze and run a real training, record its checkpoint, verify it.
# Everything is written to a new directory under ${TMPDIR:-/tmp}, which is kept; your own keys and settings stay untouched.
# usage: quickstart.sh    LEDGER=BINARY skips the build; CARGO_TARGET_DIR and LEDGER_TEST_CACHE are honoured
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
repository=$(dirname -- "$here")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/ledger-quickstart.XXXXXX")
project=$scratch/digits

die() {
    printf 'quickstart: %s\n' "$1" >&2
    exit 1
}

step() {
    local shown='$' word
    for word in "$@"; do
        # Quoted where a shell would read the bare word differently, so that the line can be pasted.
        if [[ $word == *[!A-Za-z0-9_./:=@,-]* ]]; then word="'$word'"; fi
        shown+=" $word"
    done
    printf '%s\n' "$shown"
    "$@"
}

# A checkout may be read-only; then what is cached or built lies beside the project instead.
writable() {
    mkdir -p -- "$1" 2>/dev/null && [[ -w $1 ]]
}

command -v git >/dev/null || die "needs git: apt-get install git"
export LEDGER_TEST_CACHE=${LEDGER_TEST_CACHE:-$repository/.cache}
writable "$LEDGER_TEST_CACHE" || LEDGER_TEST_CACHE=$scratch/cache

if [[ -n ${LEDGER:-} ]]; then
    binary=$(realpath -- "$LEDGER")
else
    # shellcheck source=toolchain.sh
    . "$here/toolchain.sh"
    if [[ -z ${CARGO_TARGET_DIR:-} ]] && ! writable "$repository/target"; then
        export CARGO_TARGET_DIR=$LEDGER_TEST_CACHE/target
    fi
    # Cargo names what it built, so no setting that moves the binary can mislead us.
    binary=$(
        cargo build --release --locked --bin ledger --manifest-path "$repository/Cargo.toml" \
            --message-format=json-render-diagnostics |
            sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
    ) || die "the build failed"
fi
[[ -x $binary ]] || die "no binary at '$binary'"
venv=$("$here/venv.sh" "$here/digits/requirements.lock")

# From here on the environment is the scratch directory's: no key, trust file, git setting or current run from outside.
mkdir -p -- "$scratch/bin" "$scratch/home"
ln -s -- "$binary" "$scratch/bin/ledger"
cat >"$scratch/env" <<EOF
export PATH=${scratch@Q}/bin:${venv@Q}/bin:"\$PATH"
export HOME=${scratch@Q}/home
export XDG_CONFIG_HOME=${scratch@Q}/home/config XDG_STATE_HOME=${scratch@Q}/home/state XDG_CACHE_HOME=${scratch@Q}/home/cache
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE PYTHONHOME PYTHONPATH
unset LEDGER LEDGER_DIR LEDGER_RUN LEDGER_RUN_DIR LEDGER_ATTEMPT LEDGER_KEY LEDGER_KEY_FILE LEDGER_MODE
unset LEDGER_RANK RANK SLURM_PROCID OMPI_COMM_WORLD_RANK PMI_RANK
EOF
# shellcheck source=/dev/null
. "$scratch/env"

cp -R -- "$here/digits" "$project"
chmod -R u+w -- "$project"
cd -- "$project"
rm -rf -- out results*.json __pycache__ .ledger
git -c init.defaultBranch=main init --quiet --template=
git add .
git -c user.name='Quick Start' -c user.email=quickstart@localhost commit --quiet -m 'Digits: data, model, training, evaluation'

step ledger init
step ledger run -- python train.py --out out
step ledger record checkpoint out/step-300
step ledger eval --subject out/step-300 --results 'results*.json' -- python evaluate.py out/step-300 --out results.json
step ledger verify out/step-300
step ledger trace out/step-300

printf '\nTo go on:  . %s && cd %s\n' "$scratch/env" "$project"
printf '%s\n' "$project/.ledger"
