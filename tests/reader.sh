#!/usr/bin/env bash
# The second reader judges the vectors and what the quickstart left behind, and both readers judge a ledger that is damaged in every way.
# usage: reader.sh LEDGER PYTHON     PYTHON from the environment of store-format/reader/requirements.lock; LEDGER=BINARY
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
project=$(dirname -- "$(realpath -- "$1")")
python=$2 binary=$LEDGER
format=$(realpath -- "$here/../store-format")
# shellcheck source=check.sh
. "$here/check.sh"
# shellcheck source=/dev/null
. "$(dirname -- "$project")/env"
export PYTHONDONTWRITEBYTECODE=1
cd -- "$project"

expect 0 'the reader agrees with every vector' "$python" "$format/reader/check_vectors.py"
printf '%s\n' "$answer"
expect 0 'the reader takes the golden ledger' "$python" "$format/reader" "$format/vectors"

expect 0 'the reader takes the ledger of the quickstart' "$python" "$format/reader" .ledger
checkpoint=$(ledger --json ls checkpoints | grep -o -m 1 'ck:[0-9a-f]\{64\}')
expect 0 'ledger trace' ledger trace "$checkpoint"
traced=$answer
expect 0 'the reader prints a lineage' "$python" "$format/reader" .ledger "${checkpoint:0:11}"
[[ -n $traced && $answer == "$traced" ]] || fail 'the lineage is not the one that ledger trace prints'
ok 'both lineages are the same to the byte'

# A reader that cannot say no proves nothing: one wrong byte, one wrong vector, one id that is none.
scratch=$(mktemp -d)
cp -R -- .ledger "$format/vectors" "$scratch"
object=$(find "$scratch/.ledger/objects" -type f | sort | head -n 1)
chmod u+w "$object"
printf 'x' >>"$object"
expect 5 'the reader sees one byte too many' "$python" "$format/reader" "$scratch/.ledger" "$checkpoint"
says 'it names the object' "${object#"$scratch/.ledger/"}"
answers 'it prints no lineage of a damaged ledger' ''
expect 3 'the reader knows no such checkpoint' "$python" "$format/reader" .ledger ck:000000000000
printf '00' >"$scratch/vectors/encoding/invalid/tag.hex"
expect 1 'the reader sees a vector that is not what its name says' "$python" "$format/reader/check_vectors.py" "$scratch/vectors"
says 'it names the vector' 'tag.hex'

# A copy goes on as a ledger of its own, with copies of the keys and of what is remembered.
mkdir -- "$scratch/project"
cp -R -- .ledger "$scratch/project"
cp -R -- "$HOME" "$scratch/home"
forked() {
    env -C "$scratch/project" HOME="$scratch/home" XDG_CONFIG_HOME="$scratch/home/config" \
        XDG_STATE_HOME="$scratch/home/state" XDG_CACHE_HOME="$scratch/home/cache" "$@"
}
expect 0 'a fork is made' forked "$binary" init --fork
expect 0 'the reader takes the fork' forked "$python" "$format/reader" .ledger "$checkpoint"
[[ $answer == "$traced" ]] || fail 'the lineage across the fork is another one'
ok 'the lineage crosses the fork'
tile=$(cd -- "$scratch/project/.ledger" && find parents -path '*/tile/0/*' -type f | sort | head -n 1)
chmod u+w "$scratch/project/.ledger/$tile"
printf 'x' >>"$scratch/project/.ledger/$tile"
expect 5 'fsck sees a damaged tile of the parent' forked "$binary" fsck
says 'it names the tile' "$tile"
expect 5 'the reader sees a damaged tile of the parent' forked "$python" "$format/reader" .ledger
says 'it names the tile too' "$tile"
rm -rf -- "$scratch"

expect 0 'both readers name the same damage' env LEDGER="$binary" "$python" "$here/damage.py"
printf '%s\n' "$answer"
