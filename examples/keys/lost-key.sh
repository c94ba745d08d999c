#!/usr/bin/env bash
# Drill: the only owner has lost her key, and the recovery key that was kept offline appoints her again.
# usage: lost-key.sh    LEDGER=BINARY, else `ledger` on PATH; works in a scratch directory that it removes
set -euo pipefail
# shellcheck source=drill.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/drill.sh"
roles=owner,author,evaluator,reviewer,approver

story 'Kim founds a ledger. The recovery key goes to a drawer, under a passphrase.'
mkdir -p -- "$scratch/drawer"
printf 'a passphrase on paper\n' >"$scratch/drawer/paper"
expect 0 kim --passphrase-file "$scratch/drawer/paper" key new --no-passphrase
expect 0 kim --passphrase-file "$scratch/drawer/paper" init --recovery "$scratch/drawer/recovery.key"
ledger=$(field kim head ledger)
weights good 'trained by Kim'
expect 0 kim record checkpoint out/good --run none
old=$(field kim key show author.key)
oldlog=$(field kim key show log.key)

story "The disk is gone, and with it Kim's keys and all that her machine remembered."
rm -rf -- "$scratch/kim"
expect 3 kim record checkpoint out/good --run none
says 'no-key'
expect 0 kim key new --no-passphrase
expect 3 kim record checkpoint out/good --run none
says 'unknown-key'

story 'The drawer is opened. Without the paper nothing happens, and only an owner can be appointed.'
request=$(as kim key show --request 2>/dev/null)
expect 3 kim --key-file "$scratch/drawer/recovery.key" key add "$request" --roles "$roles"
says 'locked-key'
rescue=(--key-file "$scratch/drawer/recovery.key" --passphrase-file "$scratch/drawer/paper")
expect 4 kim "${rescue[@]}" key add "$request" --roles author
expect 4 kim "${rescue[@]}" record checkpoint out/good --run none
expect 0 kim "${rescue[@]}" key add "$request" --roles "$roles"

story 'The new key is an owner. It adds its own log key, and ends what is lost.'
expect 0 kim key add "$request" --roles "$roles,log"
expect 0 kim "${rescue[@]}" key revoke "${old:0:12}"
expect 0 kim key revoke "${oldlog:0:12}"
expect 0 kim key trust "$ledger"

story 'What was recorded before stands: a lost key is not a leaked one.'
expect 0 kim verify out/good
weights new 'trained after the loss'
expect 0 kim record checkpoint out/new --run none
expect 0 kim verify out/new
story 'Nobody, not even an owner, can take the recovery key away.'
recovery=$(as kim key ls | awk '$3 == "recovery" { print $1 }')
expect 4 kim key revoke "${recovery:0:12}"
expect 0 kim fsck
printf '\n%s: every expectation held\n' "$drill"
