#!/usr/bin/env bash
# Gives the array job of examples/slurm to a real Slurm: one that runs on loopback for as long as this script does.
# What tests/slurm.sh plays must come out the same: a task that got TERM, one that was killed and requeued, none lost.
# usage: slurm_real.sh LEDGER     as root, since slurmd is; skipped where there are no packages slurm-wlm and munge
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=check.sh
. "$here/check.sh"

for program in munged slurmctld slurmd sbatch; do
    command -v "$program" >/dev/null || { echo "skipped: no $program: apt-get install slurm-wlm munge" && exit; }
done
[[ $(id -u) == 0 ]] || { echo 'skipped: slurmd needs root' && exit; }

scratch=$(mktemp -d "${TMPDIR:-/tmp}/ledger-slurm.XXXXXX")
chmod 755 -- "$scratch"
servers=()
finish() {
    local code=$?
    trap - EXIT
    [[ ! -e $scratch/slurm.conf ]] || scancel --user=root 2>/dev/null || true
    # The last started goes first. Each pid is one that was started here.
    for ((i = ${#servers[@]} - 1; i >= 0; i--)); do
        kill -TERM "${servers[i]}" 2>/dev/null || true
        wait "${servers[i]}" 2>/dev/null || true
    done
    if [[ $code != 0 ]]; then
        tail -n 30 -- "$scratch"/*.log "$scratch"/project/logs/* 2>/dev/null || true
    fi
    rm -rf -- "$scratch"
    exit "$code"
}
trap finish EXIT

# waits NAME COMMAND...: until the command succeeds.
waits() {
    local name=$1 deadline=$((SECONDS + 120))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || fail "$name did not happen"
        sleep 0.2
    done
    ok "$name"
}

mkdir -p -- "$scratch"/{bin,home,state,spool}
ln -s -- "$(realpath -- "$1")" "$scratch/bin/ledger"
export PATH=$scratch/bin:$PATH HOME=$scratch/home SLURM_CONF=$scratch/slurm.conf
unset XDG_CONFIG_HOME XDG_STATE_HOME XDG_CACHE_HOME LEDGER_DIR LEDGER_KEY_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1

head -c 1024 /dev/urandom >"$scratch/munge.key"
chmod 400 -- "$scratch/munge.key"
munged --foreground --force --key-file="$scratch/munge.key" --socket="$scratch/munge.socket" --pid-file="$scratch/munge.pid" \
    --log-file="$scratch/munge.log" --seed-file="$scratch/munge.seed" >"$scratch/munged.log" 2>&1 &
servers+=($!)
waits 'munged answers' munge --socket="$scratch/munge.socket" -n

# Twelve processors on paper, so that all tasks run at once. Requeued jobs wait until old credentials have expired.
cat >"$scratch/slurm.conf" <<EOF
ClusterName=loopback
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.socket,cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=2,batch_sched_delay=1
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=5
ReturnToService=2
NodeName=loopback NodeAddr=127.0.0.1 CPUs=12 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF
slurmctld -D >"$scratch/slurmctld.log" 2>&1 &
servers+=($!)
waits 'slurmctld answers' scontrol ping
slurmd -D -N loopback >"$scratch/slurmd.log" 2>&1 &
servers+=($!)
waits 'the node is idle' bash -c '[[ $(sinfo --noheader --format=%T) == idle ]]'

cp -R -- "$here/../examples/slurm" "$scratch/project"
cd -- "$scratch/project"
mkdir -p logs
# Longer, because Slurm's own commands take their time.
sed -i 's/"steps": 60/"steps": 200/' config.json
git -c init.defaultBranch=main init --quiet --template=
git add .
git -c user.name=Slurm -c user.email=slurm@localhost commit --quiet -m 'A training for an array'
expect 0 'the ledger is made' ledger init

expect 0 'the array is submitted' sbatch --parsable train.sbatch
array=$answer
log() { printf 'logs/%s_%s.out' "$array" "$1"; }
has() { grep -q "^$2" "$(log "$1")"; }
state() { scontrol --oneliner show job "${array}_$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
is() { [[ $(state "$1") == "$2" ]]; }
status() {
    ledger --json ls runs | python3 -c '
import json, sys
print(*(r["status"] for r in json.load(sys.stdin)["rows"] if r["name"] == sys.argv[1]))' "seeds-$array-$1"
}

waits 'task 3 trains' has 3 'step 5:'
expect 0 'TERM goes to its batch script' scancel --signal=TERM --batch "${array}_3"
waits 'task 7 has saved a checkpoint' has 7 'step 20:'
job=$(scontrol --oneliner show job "${array}_7" | sed -n 's/^JobId=\([0-9]*\).*/\1/p')
for pid in $(scontrol listpids "$job" loopback | awk 'NR > 1 && $1 > 0 { print $1 }'); do
    kill -KILL "$pid" 2>/dev/null || true
done
waits 'task 7 is killed' bash -c "[[ ! \$(scontrol --oneliner show job ${array}_7) =~ JobState=(RUNNING|COMPLETING) ]]"
expect 0 'it is requeued' scontrol requeue "${array}_7"
waits 'the requeued task goes on from its checkpoint' has 7 'seed 7: from step 20'
for ((i = 0; i < 12; i++)); do
    waits "task $i completes" is "$i" COMPLETED
done
for ((i = 0; i < 12; i++)); do
    wanted=completed
    [[ $i != 3 ]] || wanted=preempted
    [[ $(status "$i") == "$wanted" ]] || fail "task $i is '$(status "$i")' and should be $wanted"
done
ok 'every run has the status that it should have'
expect 0 'the requeued run is shown' ledger show "seeds-$array-7"
says 'its first attempt is lost' '  lost'
expect 0 'fsck finds nothing' ledger fsck
