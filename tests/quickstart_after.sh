#!/usr/bin/env bash
# What must hold in the ledger that the quickstart left behind: tampering, mistaken identity, unknown weights, drift.
# usage: quickstart_after.sh LEDGER     the last line of examples/quickstart.sh; runs once for each quickstart
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
project=$(dirname -- "$(realpath -- "$1")")
scratch=$(dirname -- "$project")
# shellcheck source=check.sh
. "$here/check.sh"
# shellcheck source=/dev/null
. "$scratch/env"
cd -- "$project"

hex='[0-9a-f]{64}'
weights=out/step-300/model.safetensors

expect 0 'the checkpoint verifies' ledger verify out/step-300
expect 0 'verify answers as one JSON document' ledger --json verify out/step-300
python -c 'import json, sys; d = json.loads(sys.argv[1]); assert d["ok"] is True and d["exit"] == 0 and "schema" in d' \
    "$answer" || fail 'the document has schema, ok and exit'
expect 0 'the lineage is traced' ledger trace out/step-300
says 'the lineage reaches the commit' "$(git rev-parse HEAD | cut -c1-7)"
says 'the lineage names the data, the config and the lock file' digits.csv config.yaml requirements.lock

# One flipped byte.
cp -p -- "$weights" "$scratch/weights"
python -c 'import sys; p = sys.argv[1]; b = bytearray(open(p, "rb").read()); b[-1] ^= 1; open(p, "wb").write(b)' "$weights"
expect 1 'a flipped byte fails' ledger verify out/step-300
says 'the flipped file is named' model.safetensors
expect 1 'a flipped byte fails in JSON too' ledger --json verify out/step-300
python -c 'import json, sys; d = json.loads(sys.argv[1]); assert d["ok"] is False and d["exit"] == 1 and d["findings"]' \
    "$answer" || fail 'the document says what failed'
cp -p -- "$scratch/weights" "$weights"
expect 0 'the restored weights verify again' ledger verify out/step-300

# Another recorded checkpoint.
expect 0 'recording the same checkpoint again is harmless' ledger record checkpoint out/step-300
answers 'record prints exactly the id' "ck:$hex"
first=$answer
expect 0 'a second checkpoint is recorded' ledger record checkpoint out/step-200
answers 'the second id is printed alone' "ck:$hex"
[[ $answer != "$first" ]] || fail 'two checkpoints have one id'
expect 0 'the second checkpoint verifies' ledger verify out/step-200
expect 0 'the first is the first' ledger verify out/step-300 --is "$first"
expect 1 'the second is not the first' ledger verify out/step-200 --is "$first"
expect 0 'both are listed' ledger ls checkpoints --ids
says 'the list holds the first id' "$first"

# A directory that the ledger has never seen.
mkdir -p -- "$scratch/unknown"
python -c 'import sys, numpy as np; from safetensors.numpy import save_file
save_file({"other": np.arange(12, dtype=np.float32)}, sys.argv[1])' "$scratch/unknown/model.safetensors"
expect 3 'unknown weights cannot be decided' ledger verify "$scratch/unknown"

# Drift between freeze and start.
expect 0 'a second run is frozen' ledger freeze -- python train.py --out out/second
answers 'freeze prints exactly the id' "run:$hex"
run=$answer
cp -p -- config.yaml "$scratch/config.yaml"
sed -i 's/^  lr: 0\.1$/  lr: 0.2/' config.yaml
expect 4 'a changed config line refuses to start' ledger start "$run"
says 'the refusal names the key and both values' frozen-drift optim 0.1 0.2
[[ $said =~ optim[./]lr ]] || fail 'the drifted key is not written out'
cp -p -- "$scratch/config.yaml" config.yaml
expect 0 'the restored line goes through' ledger start "$run"
expect 0 'the run is ended' ledger end "$run" --status cancelled --reason 'only a check'

# Nothing that can be made again holds an answer.
expect 0 'verify before' ledger verify out/step-300
verified=$answer
expect 0 'trace before' ledger trace out/step-300
traced=$answer
rm -rf -- "$XDG_CACHE_HOME" .ledger/tmp
expect 0 'verify without caches and tmp' ledger verify out/step-300
[[ $answer == "$verified" ]] || fail 'verify answers differently without caches'
expect 0 'trace without caches and tmp' ledger trace out/step-300
[[ $answer == "$traced" ]] || fail 'trace answers differently without caches'
expect 0 'writing goes on without caches and tmp' ledger record checkpoint out/step-100
expect 0 'the ledger is sound' ledger fsck
expect 0 'the bare command tells where you are' ledger
