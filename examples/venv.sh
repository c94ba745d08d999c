#!/usr/bin/env bash
# Prints the path of a virtual environment that holds exactly what a lock file pins.
# It is made once and kept under the hash of the lock file and the interpreter; it installs nothing else, nowhere else.
# usage: venv.sh LOCK     cache: ${LEDGER_TEST_CACHE:-REPOSITORY/.cache}
set -euo pipefail

lock=$(realpath -- "$1")
repository=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=$(realpath -m -- "${LEDGER_TEST_CACHE:-$repository/.cache}")

die() {
    printf 'venv.sh: %s\n' "$1" >&2
    exit 1
}

python=$(command -v python3.11 || command -v python3) || die "needs Python 3.11: apt-get install python3 python3-venv"
# A version manager may offer a python3.11 that it does not have, so the name alone proves nothing.
"$python" -c '' 2>/dev/null || python=$(command -v python3) || die "$python does not start"
# The lock files name wheels for these versions only.
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' ||
    die "needs Python 3.11 (3.12 and 3.13 work too), found $("$python" -V)"
"$python" -c 'import ensurepip, venv' 2>/dev/null || die "this Python cannot make environments: apt-get install python3-venv"

# The interpreter is part of the key: an environment breaks when its interpreter is replaced.
interpreter=$("$python" -c 'import sys; print(sys.version, sys.base_prefix)')
key=$({ cat -- "$lock"; printf '%s\n' "$interpreter"; } | sha256sum | cut -c1-16)
venv=$cache/venv-$key

mkdir -p -- "$cache"
exec 9>"$venv.lock"
# Two scripts that start together build it once.
flock 9

# `complete` is written last, so a half-made environment is made again.
if [[ ! -e $venv/complete ]] || ! "$venv/bin/python" -c '' 2>/dev/null; then
    rm -rf -- "$venv"
    "$python" -m venv "$venv" >&2 || die "could not make $venv"
    # A package without wheels is named in its lock file, so that no other is ever built here.
    sources=$(sed -n 's/^# built from source: //p' "$lock")
    "$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
        --require-hashes --only-binary :all: ${sources:+--no-binary "$sources"} -r "$lock" >&2 || die "could not install $lock"
    touch -- "$venv/complete"
fi
printf '%s\n' "$venv"
