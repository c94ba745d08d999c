#!/usr/bin/env bash
# Looks for inputs that no reader of bytes survives: every target of fuzz/ for SECONDS each, 60 unless given.
# usage: soak.sh [SECONDS [TARGET]...]    Findings stay in fuzz/artifacts; new inputs worth keeping go to fuzz/corpus
#                                         only with SOAK_KEEP=1; CARGO_TARGET_DIR is honoured
# It builds with the installed stable toolchain: LLVM's coverage is asked for by flags that stable has.
set -euo pipefail

repository=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
fuzz=$repository/fuzz
seconds=${1:-60}
shift $(($# > 0 ? 1 : 0))
[[ $seconds =~ ^[0-9]+$ ]] || { echo 'soak.sh: SECONDS is a whole number' >&2 && exit 2; }
command -v c++ >/dev/null || { echo 'soak.sh: the fuzzing engine needs a C++ compiler: apt-get install g++' >&2 && exit 3; }

target_dir=$(realpath -m -- "${CARGO_TARGET_DIR:-$repository/target}/fuzz")
host=$(rustc -vV | sed -n 's/^host: //p')
flags=(
    --cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
)
# An explicit host keeps the flags away from build scripts, which have no engine to report to.
CARGO_TARGET_DIR=$target_dir RUSTFLAGS=${flags[*]} \
    cargo build --manifest-path "$fuzz/Cargo.toml" --release --locked --target "$host" --bins

targets=("$@")
if [[ ${#targets[@]} == 0 ]]; then
    for program in "$fuzz"/fuzz_targets/*.rs; do
        targets+=("$(basename -- "$program" .rs)")
    done
fi

found=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/ledger-soak.XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT
for name in "${targets[@]}"; do
    new=$scratch/$name
    mkdir -p -- "$new" "$fuzz/artifacts/$name"
    # No 64 KiB may cost a reader five seconds or 512 MiB.
    if TMPDIR=$scratch "$target_dir/$host/release/$name" -max_total_time="$seconds" -rss_limit_mb=512 -timeout=5 \
        -max_len=65536 -print_final_stats=1 -artifact_prefix="$fuzz/artifacts/$name/" \
        "$new" "$fuzz/corpus/$name" >"$scratch/$name.log" 2>&1; then
        printf '%-16s %s executions, no finding\n' "$name" \
            "$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/$name.log")"
        rmdir -- "$fuzz/artifacts/$name"
        [[ -z ${SOAK_KEEP:-} ]] || cp -- "$new"/* "$fuzz/corpus/$name/" 2>/dev/null || true
    else
        found=$((found + 1))
        tail -n 40 -- "$scratch/$name.log"
        printf '%-16s FINDING, see fuzz/artifacts/%s\n' "$name" "$name"
    fi
done
rmdir -- "$fuzz/artifacts" 2>/dev/null || true
printf '%s targets, %s findings\n' "${#targets[@]}" "$found"
[[ $found == 0 ]]
