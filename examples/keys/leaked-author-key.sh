#!/usr/bin/env bash
# Drill: somebody has an author's key and signs in that author's name. What verifies before, and after the answer to it.
# usage: leaked-author-key.sh    LEDGER=BINARY, else `ledger` on PATH; works in a scratch directory that it removes
set -euo pipefail
# shellcheck source=drill.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/drill.sh"

story 'Kim owns the ledger, Lee trains models.'
expect 0 kim init
expect 0 lee key new --no-passphrase
expect 0 kim key add "$(as lee key show --request 2>/dev/null)"
expect 0 lee key trust "$(field kim head ledger)"
weights good 'trained by Lee'
expect 0 lee record checkpoint out/good --run none

story "The thief finds Lee's author key in the log of a build job, and works from a machine of his own."
mkdir -p -- "$scratch/thief/desk/out/evil"
(umask 077 && grep -v '^log ' "$scratch/lee/.config/ledger/keys/default.key" >"$scratch/thief/stolen.key")
printf 'backdoor' >"$scratch/thief/desk/out/evil/model.npy"
more=(LEDGER_KEY_FILE="$scratch/thief/stolen.key" LEDGER_DIR="$PWD/.ledger")
expect 0 thief -C "$scratch/thief/desk" record checkpoint out/evil --run none
says 'queued'
more=()
since=$(field kim head size)
expect 0 kim sequence

story 'Lee knows nothing of it and goes on working.'
weights later 'trained by Lee, too'
expect 0 lee record checkpoint out/later --run none

story 'Before: the signature is right, so the forged weights verify.'
cp -R -- "$scratch/thief/desk/out/evil" out/evil
expect 0 kim verify out/evil

story "Lee sees a checkpoint that nobody trained, at statement $since. Kim answers."
key=$(field lee key show author.key)
expect 0 kim key revoke "${key:0:12}" --compromised-since "$since" --reason 'key printed by a build job'
says "compromised since statement $since" 'note: it signed'

story 'After: what was signed since then is not relied on, and the answer says whose key, where and why.'
expect 1 kim verify out/evil
says 'signed by lee' "compromised since statement $since" 'key printed by a build job'
story 'What Lee signed before stands.'
expect 0 kim verify out/good
says 'was signed before and stands'
story 'The thief signs no more.'
printf 'another one' >"$scratch/thief/desk/out/evil/model.npy"
more=(LEDGER_KEY_FILE="$scratch/thief/stolen.key" LEDGER_DIR="$PWD/.ledger")
expect 4 thief -C "$scratch/thief/desk" record checkpoint out/evil --run none
more=()

story 'What Lee did meanwhile is in doubt as well: nobody can tell it from the work of the thief, except Lee.'
expect 1 kim verify out/later
mv -- "$scratch/lee/.config/ledger/keys/default.key" "$scratch/lee/.config/ledger/keys/leaked.key"
expect 0 lee key new --no-passphrase
expect 0 kim key add "$(as lee key show --request 2>/dev/null)"
story 'Lee looks at the weights, and says it again with the new key.'
expect 0 lee record checkpoint out/later --run none
expect 0 kim verify out/later
says 'says it again'
expect 1 kim verify out/evil
expect 0 kim fsck
printf '\n%s: every expectation held\n' "$drill"
