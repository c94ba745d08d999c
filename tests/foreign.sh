#!/usr/bin/env bash
# Tools that are not ours judge what the quickstart left behind: COSE libraries, Python's readers, safetensors, b3sum, sha256sum.
# usage: foreign.sh LEDGER PYTHON     PYTHON from the environment of tests/foreign/requirements.lock
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
project=$(dirname -- "$(realpath -- "$1")")
python=$2
# shellcheck source=check.sh
. "$here/check.sh"
# shellcheck source=/dev/null
. "$(dirname -- "$project")/env"
cd -- "$project"

expect 0 'scitt-cose and cwt accept every statement' "$python" "$here/foreign/statement.py" --ledger .ledger
expect 0 'scitt-cose and cwt accept the golden statements' "$python" "$here/foreign/statement.py" --ledger "$here/../store-format/vectors"

frozen=(.ledger/runs/*/frozen-config.json)
[[ -e ${frozen[0]} ]] || fail 'no run directory holds a frozen-config.json'
for file in "${frozen[@]}"; do
    expect 0 'Python reads the frozen config as its source' "$python" "$here/foreign/json_equal.py" "$file" config.yaml
done

weights=out/step-300/model.safetensors
expect 0 'hash lists tensors' ledger --json hash --tensors "$weights"
listing=$(mktemp)
printf '%s' "$answer" >"$listing"
expect 0 'safetensors reads the same tensors' "$python" "$here/foreign/tensors.py" "$weights" "$listing"
rm -f -- "$listing"

: >empty.bin
for file in "$weights" digits.csv empty.bin; do
    expect 0 "hash of $file" ledger hash --digests all "$file"
    says 'b3sum and sha256sum agree' "$(b3sum --no-names -- "$file")" "$(sha256sum -- "$file" | cut -d' ' -f1)"
done
rm -f -- empty.bin
