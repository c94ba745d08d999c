#!/usr/bin/env bash
# Makes a golden ledger: one that every later version of the program must open, check and answer from.
# usage: make.sh BINARY DIR    DIR is new, as v1; it was made once, and what is there is never made anew
#
# DIR/ledger is the ledger's directory, DIR/out the checkpoints, DIR/answers.json what was true on the day.
set -euo pipefail

ledger=$(realpath -- "$1")
[[ ! -e $2 ]] || { printf 'make.sh: %s is there already\n' "$2" >&2 && exit 2; }
mkdir -p -- "$2"
target=$(realpath -- "$2")
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
project=$scratch/project
mkdir -p -- "$project" "$scratch/kim" "$scratch/lee"
cd -- "$project"
umask 022

as() {
    local who=$1
    shift
    env -i PATH="$PATH" HOME="$scratch/$who" USER="$who" LC_ALL=C "$ledger" -q "$@"
}

# A file of safetensors with one tensor of four floats.
weights() {
    mkdir -p -- "$1"
    python3 - "$1/model.safetensors" "$2" <<'PY'
import json, struct, sys
header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header + struct.pack("<4f", *[float(sys.argv[2])] * 4))
PY
}

git init -q -b main
printf 'print("train")\n' >train.py
printf 'lr: 0.1\nseed: 3\nnested: {a: [1, 2.0, "x"]}\n' >config.yaml
mkdir data
printf 'a,b\n1,2\n' >data/train.csv
printf '3,4\n' >"data/odd name.csv"
git add -A
git -c user.name=kim -c user.email=kim@example.org commit -qm begin

id=$(as kim init --recovery "$scratch/recovery.key")
as lee key new --no-passphrase
as kim key add "$(as lee key show --request 2>/dev/null)" --roles author,evaluator,log
as lee key trust "$id"

dataset=$(as kim record dataset data --name digits --licence CC0)
weights base 0
model=$(as kim record model base --name start)
run=$(as lee freeze -c config.yaml --data train=data --base init=base --seed 3 --name first -- python3 train.py)
first=$(as lee start "$run")
as lee end "$run" --status failed --reason 'out of memory' >"$scratch/ended"
as lee start "$run" >"$scratch/started"
weights out/step-10 1
middle=$(as lee record checkpoint out/step-10 --run "$run" --step 10 --store)
weights out/step-20 2
last=$(as lee record checkpoint out/step-20 --run "$run" --step 20 --parent "$middle" --store)
as lee end "$run" --status completed >"$scratch/ended"
printf '{"accuracy": 0.5}\n' >result.json
eval=$(as kim record eval result.json --subject out/step-20 --benchmark digits)
as kim record note "$run" -m 'the second attempt' >"$scratch/note"
weights out/wrong 3
wrong=$(as lee record checkpoint out/wrong --run "$run" --step 30)
as kim revoke "$wrong" --reason 'trained on the test set' >"$scratch/revoked"
spare() {
    env -i PATH="$PATH" HOME="$scratch/lee" LEDGER_KEY_FILE="$scratch/lee/spare.key" "$ledger" -q "$@"
}
spare key new --no-passphrase
as kim key add "$(spare key show --request 2>/dev/null)"
stolen=$(spare --json key show | python3 -c 'import json, sys; print(json.load(sys.stdin)["author"]["key"])')
as kim key revoke "${stolen:0:12}" --compromised-since now --reason 'laptop stolen' >"$scratch/revoked"

python3 - "$target/answers.json" <<PY
import json, pathlib, subprocess, sys
def ask(*args):
    told = subprocess.run(["env", "-i", "PATH=$PATH", "HOME=$scratch/kim", "$ledger", "--json", *args], capture_output=True, text=True)
    return told.returncode, json.loads(told.stdout)
code, entries = ask("entries")
code, head = ask("head")
code, trace = ask("trace", "$last")
answers = {
    "ledger": "$id",
    "head": {"size": head["size"], "root": head["root"]},
    "statements": [[entry["statement"], entry["standing"]] for entry in entries["entries"]],
    "lineage": sorted(node["id"] for node in trace["nodes"]),
    "run": "$run", "attempts": 2, "status": "completed",
    "names": {"data:digits": "$dataset", "model:start": "$model", "run:first": "$run"},
    "checkpoints": {"out/step-10": "$middle", "out/step-20": "$last", "out/wrong": "$wrong"},
    "revoked": "out/wrong",
    "eval": "$eval",
}
json.dump(answers, open(sys.argv[1], "w"), indent=1)
# Hosts, users and paths of the day are nobody's business later; a ledger holds without them.
for link in (link for entry in entries["entries"] for claim in entry["claims"] for link in claim["links"]):
    if link["role"] == "private":
        digest = link["id"].split(":")[1]
        pathlib.Path(".ledger/objects", digest[:2], digest[2:]).unlink(missing_ok=True)
PY
rm -rf .ledger/tmp/* .ledger/runs
cp -R .ledger "$target/ledger"
cp -R out "$target/out"
