#!/usr/bin/env bash
# The static binary does the main job in a root directory that holds nothing else: no libc, no /proc, no /dev, no /tmp.
# usage: chroot.sh BINARY
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=check.sh
. "$here/check.sh"

# The environment inside is empty, so what enters it is named by its path.
PATH=$PATH:/usr/sbin:/sbin
chroot=$(command -v chroot)
if [[ $(id -u) == 0 ]]; then
    enter=("$chroot")
elif unshare --map-root-user true 2>/dev/null; then
    enter=("$(command -v unshare)" --map-root-user "$chroot")
else
    echo 'skipped: neither root nor user namespaces'
    exit 0
fi

root=$(mktemp -d)
trap 'rm -rf -- "$root"' EXIT
cp -- "$1" "$root/ledger"
mkdir -- "$root/home" "$root/project"
inside() {
    env -i HOME=/home "${enter[@]}" "$root" /ledger "$@"
}

expect 0 'it starts' inside --version
says 'it says who it is' ledger
expect 0 'init' inside init /project
printf '{"seed": 1, "lr": 0.5}\n' >"$root/project/config.json"
expect 0 'run' inside -C /project run -c config.json --no-code -- /ledger --version
mkdir -- "$root/project/out"
printf 'weights' >"$root/project/out/model.bin"
expect 0 'record checkpoint' inside -C /project record checkpoint out
answers 'it prints exactly the id' 'ck:[0-9a-f]{64}'
expect 0 'verify' inside -C /project verify out
printf 'Weights' >"$root/project/out/model.bin"
expect 1 'verify after a change' inside -C /project verify out
says 'it names the changed file' model.bin
