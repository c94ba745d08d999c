#!/usr/bin/env bash
# Drill: somebody has a log key and shows a log of his own making. Who notices, what stands, and what is done about it.
# usage: leaked-log-key.sh    LEDGER=BINARY, else `ledger` on PATH; works in a scratch directory that it removes
set -euo pipefail
# shellcheck source=drill.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/drill.sh"

story 'Kim owns the ledger, Lee has a log key, Max has none.'
expect 0 kim init
ledger=$(field kim head ledger)
for name in lee max; do
    expect 0 "$name" key new --no-passphrase
    expect 0 "$name" key trust "$ledger"
done
expect 0 kim key add "$(as lee key show --request 2>/dev/null)" --roles author,log
expect 0 kim key add "$(as max key show --request 2>/dev/null)" --roles author
weights bad 'trained on the test set'
expect 0 max record checkpoint out/bad --run none
expect 0 kim sequence
expect 0 kim verify out/bad

story 'Max notices what he has done, and revokes it. Before that is put in order, the thief copies the directory.'
expect 6 max revoke out/bad --reason 'trained on the test set'
sleep 1
weights other 'trained well'
expect 0 max record checkpoint out/other --run none
cp -R -- .ledger "$scratch/copy"
since=$(field kim head size)
expect 0 kim sequence
expect 1 kim verify out/bad
says 'trained on the test set'

story "The thief has Lee's log key. It says nothing: a fact takes an author."
(umask 077 && {
    printf 'ledger-key/1\nname nobody\nauthor %s\n' "$(head -c 32 /dev/urandom | base64 -w0)"
    grep '^log ' "$scratch/lee/.config/ledger/keys/default.key"
} >"$scratch/stolen.key")
more=(LEDGER_KEY_FILE="$scratch/stolen.key" LEDGER_DIR="$PWD/.ledger")
expect 3 thief record checkpoint out/bad --run none
says 'unknown-key'

story 'But it orders. In the copy the thief drops the revocation, puts the rest in order, and hands that out.'
mkdir -p -- "$scratch/forged"
mv -- "$scratch/copy" "$scratch/forged/.ledger"
sed -i "s/^inode .*/inode $(stat -c %i "$scratch/forged/.ledger")/" "$scratch/forged/.ledger/place"
for file in "$scratch"/forged/.ledger/log/pending/*/*; do
    if grep -q 'revocation' "$file"; then rm -f -- "$file"; fi
done
more=(LEDGER_KEY_FILE="$scratch/stolen.key" LEDGER_DIR="$scratch/forged/.ledger")
rm -rf -- "$scratch/thief"
expect 0 thief sequence

story 'Before: a machine that has never seen this ledger is deceived about what is missing, though about no fact.'
more=(LEDGER_DIR="$scratch/forged/.ledger" LEDGER_TRUST="$ledger")
expect 0 robin verify out/bad
story "Max is deceived on a new machine, and works in the wrong directory. Now the forged log is as long as the real one."
mkdir -p -- "$scratch/laptop/.config/ledger/keys"
cp -p -- "$scratch/max/.config/ledger/keys/default.key" "$scratch/laptop/.config/ledger/keys/default.key"
weights third 'trained on the new machine'
expect 0 laptop record checkpoint out/third --run none
more=(LEDGER_KEY_FILE="$scratch/stolen.key" LEDGER_DIR="$scratch/forged/.ledger")
expect 0 thief sequence

story "Kim's machine remembers a head, and the forged log does not continue it."
more=(LEDGER_DIR="$scratch/forged/.ledger")
expect 5 kim verify out/bad
says 'error[fork]'
more=()

story 'Kim takes the log key out of use, and says from where on it was in other hands.'
log=$(field lee key show log.key)
expect 0 kim key revoke "${log:0:12}" --compromised-since "$since" --reason 'log key copied from a node'

story 'After: what was said stands, and the answer tells what was put in order meanwhile, and who vouches for it now.'
expect 0 kim verify out/other
says 'order' 'was put in order while the log key of lee' 'log key copied from a node' 'by another log key vouches'
expect 1 kim verify out/bad
story 'The thief orders nothing more in the real log.'
weights more 'more'
expect 0 max record checkpoint out/more --run none
more=(LEDGER_KEY_FILE="$scratch/stolen.key")
rm -rf -- "$scratch/thief"
expect 0 thief sequence
says 'it waits for a writer who has a log key'
more=()
expect 0 kim sequence
expect 0 kim verify out/more

story 'Kim tells everybody the size of the log. Whoever writes it down as `min_head` is not deceived by the copy.'
cat >"$scratch/trust.toml" <<EOF
format = "ledger-trust/1"
[[ledger]]
id = "$ledger"
min_head = $(field kim head size)
EOF
more=(LEDGER_DIR="$scratch/forged/.ledger" LEDGER_TRUST="$scratch/trust.toml")
expect 3 sandy verify out/bad
says 'this copy ends at'
more=()
expect 0 kim fsck
printf '\n%s: every expectation held\n' "$drill"
