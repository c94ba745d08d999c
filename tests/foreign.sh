#!/usr/bin/env bash
# Tools that are not ours judge what the quickstart left behind: COSE libraries, Go's checksum client, Python's readers,
# safetensors, b3sum, sha256sum.
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

# Proofs, by people who have the log's keys and not the log.
proofs=$(mktemp -d)
trap 'rm -rf -- "$proofs"' EXIT
expect 0 "the Go verifier builds" env GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS= GOCACHE="$proofs/go" \
    go build -o "$proofs/verifier" "$here/verifier/main.go"
ledger key export --vkey >"$proofs/vkeys"
ledger -q head --note >"$proofs/newest"
run=$(ledger ls runs --ids | tail -n 1)
# A head file is named for the size of the head before it.
mapfile -t sizes < <(find .ledger/log/heads -type f -printf '%f\n' | sed 's/^0*//' | sort -n | tail -n 2)
for i in 0 1; do
    ledger -q prove --since 1 --at "${sizes[i]}" | sed '1,/^$/d' >"$proofs/head$i"
done
old=${sizes[0]}

expect 0 'prove writes a tlog-proof and its statement' \
    ledger -q prove "$run" --statement "$proofs/statement" -o "$proofs/inclusion"
ledger -q prove 0 --statement "$proofs/other-statement" >/dev/null
expect 0 'prove writes a consistency proof' ledger -q prove --since "$old" -o "$proofs/consistency"
go_inclusion() { "$proofs/verifier" - "$proofs/vkeys" -proof "$1" -entry "$2"; }
go_consistency() { "$proofs/verifier" - "$proofs/vkeys" -consistency "$1" -old "$2"; }
expect 0 'Go accepts the inclusion proof' go_inclusion "$proofs/inclusion" "$proofs/statement"
expect 0 'Go accepts the consistency proof' go_consistency "$proofs/consistency" "$proofs/head0"
expect 0 'Go accepts a proof between equal heads' \
    go_consistency <(ledger -q prove --since "$old" --at "$old") "$proofs/head0"
expect 1 'Go refuses the proof for another statement' go_inclusion "$proofs/inclusion" "$proofs/other-statement"
expect 1 'Go refuses the proof from another head' go_consistency "$proofs/consistency" "$proofs/head1"
sed -E '2s/[0-9]+/1&/' "$proofs/inclusion" >"$proofs/index"
expect 1 'Go refuses a moved index' go_inclusion "$proofs/index" "$proofs/statement"
for kind in inclusion consistency; do
    held=$proofs/statement
    [[ $kind == inclusion ]] || held=$proofs/head0
    sed -E '/^$/,$!{/=$/{s/^A/B/;t;s/^./A/}}' "$proofs/$kind" >"$proofs/flipped"
    ! cmp -s -- "$proofs/$kind" "$proofs/flipped" || fail "the $kind proof has no hash to flip"
    expect 1 "Go refuses flipped hashes of $kind" "go_$kind" "$proofs/flipped" "$held"
    { sed '/^$/,$d' "$proofs/$kind" && echo && cat -- "$proofs/head1"; } >"$proofs/moved"
    expect 1 "Go refuses the $kind proof under another head" "go_$kind" "$proofs/moved" "$held"
    sed -E '$s/....$/AAA=/' "$proofs/$kind" >"$proofs/unsigned"
    expect 1 "Go refuses the $kind proof with a spoilt signature" "go_$kind" "$proofs/unsigned" "$held"
done

ledger -q prove "$run" --receipt -o "$proofs/inclusion.receipt"
ledger -q prove "$run" --receipt --at "${sizes[1]}" -o "$proofs/inclusion-older.receipt"
ledger -q prove --since "$old" --receipt -o "$proofs/consistency.receipt"
ledger -q prove --since "$old" --receipt --at "${sizes[1]}" -o "$proofs/consistency-older.receipt"
cd -- "$proofs"
expect 0 'scitt-cose and cwt accept the inclusion receipt and refuse damaged ones' "$python" "$here/foreign/receipt.py" \
    inclusion vkeys inclusion.receipt statement inclusion-older.receipt other-statement
expect 0 'scitt-cose and cwt accept the consistency receipt and refuse damaged ones' "$python" "$here/foreign/receipt.py" \
    consistency vkeys consistency.receipt head0 newest consistency-older.receipt head1
cd -- "$project"

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
