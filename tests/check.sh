# Sourced by the test scripts: each check prints one line `check ok: NAME`, which run.sh counts; the first failure ends all.
# shellcheck shell=bash

# What the last `expect` printed, both streams together, and its standard output alone.
said='' answer=''

ok() {
    printf 'check ok: %s\n' "$1"
}

fail() {
    printf 'check failed: %s\n' "$1" >&2
    [[ -z $said ]] || printf '%s\n' "$said" | sed 's/^/    /' >&2
    exit 1
}

# expect CODE NAME COMMAND...: the command must end with that exit code.
expect() {
    local code=$1 name=$2 got=0 stdout
    shift 2
    stdout=$(mktemp)
    said=$({ "$@" 3>&1 >"$stdout" 2>&3; } 2>&1) || got=$?
    answer=$(cat -- "$stdout")
    rm -f -- "$stdout"
    said+=$'\n'$answer
    [[ $got == "$code" ]] || fail "$name: exit code $got, expected $code, from: $*"
    ok "$name"
}

# says NAME TEXT...: the last command must have printed each text, as it stands.
says() {
    local name=$1 text
    shift
    for text in "$@"; do
        [[ $said == *"$text"* ]] || fail "$name: it does not say '$text'"
    done
    ok "$name"
}

# answers NAME REGEX: all that the last command printed on standard output must match.
answers() {
    [[ $answer =~ ^$2$ ]] || fail "$1: standard output is '$answer'"
    ok "$1"
}
