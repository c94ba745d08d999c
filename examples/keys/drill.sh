# Sourced by the drills: people with homes of their own, steps that are shown, and expectations that must hold.
# shellcheck shell=bash

drill=$(basename -- "$0" .sh)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/ledger-$drill.XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT

fail() {
    printf '%s: %s\n' "$drill" "$1" >&2
    exit 1
}

if [[ -n ${LEDGER:-} ]]; then
    binary=$(realpath -- "$LEDGER")
else
    binary=$(command -v ledger) || fail 'no `ledger` on PATH; LEDGER=BINARY names one'
fi
[[ -x $binary ]] || fail "no binary at '$binary'"

# What the last command said, both streams.
said=''

# story TEXT: what happens next, for whoever reads along.
story() {
    printf '\n# %s\n' "$1"
}

# as NAME ARGS: the command as somebody would run it in the project, with nothing of this machine's in it.
as() {
    local name=$1
    shift
    mkdir -p -- "$scratch/$name"
    env -i PATH="$PATH" TMPDIR="$scratch" HOME="$scratch/$name" USER="$name" "${more[@]}" "$binary" "$@"
}
# More variables for `as`, as NAME=VALUE.
more=()

# expect CODE NAME ARGS: shows the command and what it says; it must end with that code.
expect() {
    local code=$1 name=$2 got=0
    shift 2
    printf '%s$ ledger %s\n' "$name" "$*"
    said=$(as "$name" "$@" 2>&1) || got=$?
    [[ -z $said ]] || printf '%s\n' "$said"
    [[ $got == "$code" ]] || fail "that ended with code $got, not $code"
}

# says TEXT...: the last command must have said each.
says() {
    local text
    for text in "$@"; do
        [[ $said == *"$text"* ]] || fail "it does not say '$text'"
    done
}

# field NAME ARGS FIELD: one value of a command's JSON document.
field() {
    local name=$1 path=${*: -1}
    as "$name" --json "${@:2:$#-2}" 2>/dev/null | python3 -c '
import json, sys
value = json.load(sys.stdin)
for part in sys.argv[1].split("."):
    value = value[int(part)] if part.isdigit() else value[part]
print(value)' "$path"
}

# weights NAME TEXT: a directory that stands for a checkpoint.
weights() {
    mkdir -p -- "out/$1"
    printf '%s' "$2" >"out/$1/model.npy"
}

mkdir -p -- "$scratch/project"
cd -- "$scratch/project"
