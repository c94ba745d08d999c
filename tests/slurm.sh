#!/usr/bin/env bash
# Plays the array job of examples/slurm as Slurm would run it, all tasks at once, on one ledger, with a read-only home.
# One task gets TERM, one is killed with all its processes and requeued; afterwards nothing may be lost or doubled.
# usage: slurm.sh LEDGER     LEDGER is a binary
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=check.sh
. "$here/check.sh"
tasks=12 array=4100 termed=3 killed=7

# task NUMBER RESTARTS: the batch script as slurmd starts it: from a copy in a spool, in a session of its own, without a
# terminal, in the directory of submission. The caller waits for it.
task() {
    local job=$((array + 1 + $1)) again=()
    [[ $2 == 0 ]] || again=("SLURM_RESTART_COUNT=$2")
    mkdir -p -- "$scratch/spool/job$job"
    cp -- train.sbatch "$scratch/spool/job$job/slurm_script"
    exec setsid env "${again[@]}" SLURM_JOB_ID="$job" SLURM_ARRAY_JOB_ID="$array" SLURM_ARRAY_TASK_ID="$1" \
        SLURM_ARRAY_TASK_COUNT="$tasks" SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=$((tasks - 1)) \
        SLURM_SUBMIT_DIR="$project" SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_NNODES=1 \
        SLURM_JOB_NUM_NODES=1 bash "$scratch/spool/job$job/slurm_script" >>"logs/${array}_$1.out" 2>&1 </dev/null
}

# reached TASK TEXT: waits until the task's log has that line.
reached() {
    local deadline=$((SECONDS + 120))
    until grep -q "^$2" "logs/${array}_$1.out" 2>/dev/null; do
        ((SECONDS < deadline)) || fail "task $1 never came to '$2': $(cat "logs/${array}_$1.out")"
        sleep 0.05
    done
}

# ended PID CODE: waits for a task, which must end with that code.
ended() {
    local code=0
    wait "$1" 2>/dev/null || code=$?
    [[ $code == "$2" ]]
}

# ask EXPRESSION COMMAND...: a Python expression over `d`, the JSON that the command answers.
ask() {
    local expression=$1
    shift
    "$@" | python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$expression"
}

play() {
    local i pids=() before same
    project=$scratch/project
    cd -- "$project"
    expect 1 'the home is read-only' touch "$HOME/new"
    expect 1 'there is no terminal' bash -c ': </dev/tty' </dev/null

    for ((i = 0; i < tasks; i++)); do
        task "$i" 0 &
        pids[i]=$!
    done
    reached "$termed" 'step 5:'
    # To the batch script alone, as `--signal=B:TERM` does.
    kill -TERM "${pids[termed]}"
    reached "$killed" 'step 25:'
    kill -KILL -- "-${pids[killed]}"
    ended "${pids[killed]}" 137 || fail 'the killed task was not killed'
    ok 'one task is killed, with ledger and python'
    expect 0 'its attempt is still open' ledger --json show "seeds-$array-$killed"

    # Slurm requeues it while the others still run, though not within the second in which the first one wrote.
    sleep 1.1
    task "$killed" 1 &
    pids[killed]=$!
    reached "$killed" 'seed 7: from step 20'
    ok 'the requeued task goes on from its checkpoint'
    # The same job asks a second time, as a batch script with a second `ledger start` in it would.
    before=$(ask "d['size']" ledger --json head)
    same=(env SLURM_JOB_ID=$((array + 1 + killed)) SLURM_RESTART_COUNT=1 SLURM_PROCID=0)
    expect 0 'a repeated start of the same restart' "${same[@]}" ledger start "seeds-$array-$killed"
    says 'it is the same attempt' 'this job has started this attempt before'
    expect 0 'a rank above 0 runs the command' "${same[@]}" SLURM_PROCID=1 ledger run -- true

    for ((i = 0; i < tasks; i++)); do
        ended "${pids[i]}" 0 || fail "task $i ended otherwise: $(cat "logs/${array}_$i.out")"
    done
    ok 'all others end with 0'
    expect 0 'what waits in the log is ordered' ledger sequence

    [[ $(ask "len(d['rows'])" ledger --json ls runs) == "$tasks" ]] || fail "$tasks runs are wanted, no more, no less"
    ok 'there is a run for each task'
    for ((i = 0; i < tasks; i++)); do
        judge "$i"
    done
    ok 'each run has its own frozen config, its attempts and the status that it should have'
    [[ $(ask "sum(e['claims'] != [] and c['kind'] == 'start' for e in d['entries'] for c in e['claims'])" \
        ledger --json entries) == $((tasks + 1)) ]] || fail 'one attempt a task and one for the requeue are wanted'
    ok 'nothing was started twice'
    ((before <= $(ask "d['size']" ledger --json head))) || fail 'the log became shorter'
    [[ -z $(find .ledger/log/pending -type f) ]] || fail 'a statement is left in pending'
    ok 'nothing waits'
    # Requeued although there is nothing more to do, or although somebody changed what was frozen.
    task 0 1 &
    ended $! 4 || fail 'a completed task started again'
    reached 0 'error.completed.:'
    ok 'a task that had completed does not start again'
    sed -i 's/"rate": 0.3/"rate": 0.4/' config.json
    task "$termed" 1 &
    ended $! 4 || fail 'a task started on another config'
    reached "$termed" 'error.*'
    git checkout --quiet config.json
    ok 'a task does not start again on another config'
    expect 0 'fsck finds nothing' ledger fsck
    expect 0 'a checkpoint of the requeued task verifies' ledger verify "out/seeds-$array-$killed/step-60"
}

# judge TASK: what the ledger says of one task's run.
judge() {
    local name=seeds-$array-$1 status=completed attempts='start' kinds
    if [[ $1 == "$termed" ]]; then status=preempted; fi
    if [[ $1 == "$killed" ]]; then attempts='start start'; fi
    run=$(ask "[r['id'] for r in d['rows'] if r['name'] == '$name'][0]" ledger --json ls runs)
    [[ $(ask "[r['status'] for r in d['rows'] if r['name'] == '$name'][0]" ledger --json ls runs) == "$status" ]] ||
        fail "$name should be $status"
    kinds=$(ledger --json entries | python3 -c '
import json, sys
rows = json.load(sys.stdin)["entries"]
links = [(c["kind"], {l["role"]: l["id"] for l in c["links"]}) for e in rows for c in e["claims"]]
print(*(kind for kind, link in links if kind == "start" and link["plan"] == sys.argv[1]))' "$run")
    [[ $kinds == "$attempts" ]] || fail "$name should have the attempts '$attempts' and has '$kinds'"
    [[ $(ask "d['seed']" cat ".ledger/runs/${run#run:}/frozen-config.json") == "$1" ]] || fail "$name froze another seed"
    if [[ $1 == "$killed" ]]; then
        said=$(ledger show "$run")
        says 'the killed attempt is lost, the second completed' '-> start       start:' '  lost' 'completed'
        found=$(ledger --json entries | python3 -c '
import json, sys
claims = [c for e in json.load(sys.stdin)["entries"] for c in e["claims"]]
links = [(c["kind"], c["id"], {l["role"]: l["id"] for l in c["links"]}) for c in claims]
starts = [id for kind, id, link in links if kind == "start" and link["plan"] == sys.argv[1]]
print(*(starts.index(link["start"]) for kind, _, link in links if kind == "checkpoint" and link.get("start") in starts))' "$run")
        [[ $found == '0 1 1' ]] || fail "its checkpoints are those of attempts '$found'"
        ok 'each of its checkpoints is that of the attempt that wrote it'
    fi
}

if [[ ${1-} == --play ]]; then
    scratch=$2
    # A mount of our own namespace, so that it binds root too and ends with us.
    if [[ $3 == mount ]]; then
        mount --bind "$HOME" "$HOME"
        mount -o remount,bind,ro "$HOME"
    fi
    play
    exit
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/ledger-slurm.XXXXXX")
trap 'chmod -R u+w -- "$scratch" && rm -rf -- "$scratch"' EXIT
mkdir -p -- "$scratch/bin" "$scratch/home"
ln -s -- "$(realpath -- "$1")" "$scratch/bin/ledger"
export PATH=$scratch/bin:$PATH HOME=$scratch/home
unset XDG_CONFIG_HOME XDG_STATE_HOME XDG_CACHE_HOME LEDGER_DIR LEDGER_KEY_FILE "${!SLURM_@}"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1

cp -R -- "$here/../examples/slurm" "$scratch/project"
chmod -R u+w -- "$scratch/project"
cd -- "$scratch/project"
mkdir -p logs
git -c init.defaultBranch=main init --quiet --template=
git add .
git -c user.name=Slurm -c user.email=slurm@localhost commit --quiet -m 'A training for an array'
expect 0 'the ledger is made on a login node' ledger init

how=()
if [[ $(id -u) != 0 ]]; then
    chmod -R a-w -- "$HOME"
    how=(bash "$here/slurm.sh" --play "$scratch" mode)
elif unshare -m true 2>/dev/null; then
    how=(unshare -m bash "$here/slurm.sh" --play "$scratch" mount)
else
    # Root without namespaces: the one tree in which it cannot make a file. The key then lies elsewhere.
    export LEDGER_KEY_FILE=$HOME/.config/ledger/keys/default.key HOME=/proc
    how=(bash "$here/slurm.sh" --play "$scratch" mode)
fi
"${how[@]}"
