#!/usr/bin/env bash
# The drills with leaked and lost keys, and the timestamping steps of docs/trust.md, run as they stand there.
# usage: drills.sh LEDGER     a binary
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
repository=$(dirname -- "$here")
LEDGER=$(realpath -- "$1")
export LEDGER
# shellcheck source=check.sh
. "$here/check.sh"

for drill in leaked-author-key leaked-log-key lost-key; do
    expect 0 "drill: $drill" "$repository/examples/keys/$drill.sh"
    says "drill: $drill played to its end" "$drill: every expectation held"
done
expect 1 'a drill without a binary fails' env LEDGER=/nonexistent "$repository/examples/keys/lost-key.sh"

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
mkdir -p -- "$scratch/bin" "$scratch/home" "$scratch/project"
ln -s -- "$LEDGER" "$scratch/bin/ledger"
export PATH=$scratch/bin:$PATH HOME=$scratch/home
cd -- "$scratch/project"
expect 0 'a ledger to be timestamped' ledger init

# The blocks marked `sh` below the heading, in order and in one shell.
awk '/^## /{on = $0 == "## Timestamps"} on && /^```/{in_block = $0 == "```sh"; next} on && in_block' \
    "$repository/docs/trust.md" >steps.sh
[[ $(grep -c '^openssl ts' steps.sh) == 4 ]] || fail 'the page has other steps than this test knows'
expect 0 'the steps of the page' bash -euo pipefail steps.sh
says 'the timestamp verifies and has a time' 'Verification: OK' 'Time stamp: '
says 'the head that was timestamped is continued' 'origin  lineage-ledger/'

sed '2s/.*/2/' head.txt >other.txt
expect 1 'another head has not that timestamp' openssl ts -verify -data other.txt -in head.tsr -CAfile tsa.pem
# As on the page, on the machine of somebody who was not there.
expect 0 'the ledger goes on' ledger record note "$(ledger --json entries | python3 -c '
import json, re, sys
print(re.search(r"genesis:[0-9a-f]{64}", sys.stdin.read()).group())')" -m 'later'
XDG_STATE_HOME=$scratch/memory
export XDG_STATE_HOME
id=$(sed -n '1s,^lineage-ledger/,,p' head.txt)
mkdir -p -- "$XDG_STATE_HOME/ledger/$id"
cp -- head.txt "$XDG_STATE_HOME/ledger/$id/head"
expect 0 'a longer log continues the head of that day' ledger head
says 'the log is longer by now' 'size    2'
