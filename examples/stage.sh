# Sourced by every `replay`: a private state directory, berth and the stand-in agent in PATH, and three functions: `step`
# prints, `promise` checks, `perform` shows the bug first and berth next.
#
#   replay          both: exit 0 only if the naive tool broke the promise and berth kept it
#   replay naive    the tool that has the bug: exit 1, because the promise is broken
#   replay berth    berth in its place: exit 0 only if every promise held
#
# shellcheck shell=bash
set -euo pipefail
example=$(cd "$(dirname "$0")" && pwd)

if ! command -v berth >/dev/null || ! command -v fake-agent >/dev/null; then
    echo "berth and the stand-in agent are not in PATH: building them takes a few minutes" >&2
    (cd "$example" && cargo build --quiet --bins -p berth -p berth-fake-agent)
    target=$(cd "$example" && cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
    # shellcheck disable=SC2012 # our own names
    PATH=$(dirname "$(ls -dt "$target"/*/debug/berth | head -n 1)"):$PATH
fi

# The name is short because paths of sockets are.
stage=${STAGE:-$(mktemp -d /tmp/berth-ex.XXXX)}
# A mark on every process of the replay, by which `clean_up` finds those that a naive tool left.
export REPLAY=$stage
export BERTH_HOME=$stage/home BERTH_CONFIG=$stage/config.toml AGENT=fake
unset BERTH_SESSION BERTH_RUN BERTH_HELPER
mkdir -p "$stage/store"
cat >"$BERTH_CONFIG" <<CONFIG
[agents.fake]
driver = "acp"
conversation_kind = "fake"
command = ["$(command -v fake-agent)", "acp", "--store", "$stage/store"]
CONFIG

# Ends every process with the mark. This shell has no mark in the environment it was started with, so it goes on.
clean_up_processes() {
    for pid in $(grep -lsz "^REPLAY=$stage\$" /proc/[0-9]*/environ | cut -d/ -f3); do
        kill -9 "$pid" 2>/dev/null || true
    done
}
clean_up() {
    berth stop --all --yes --quiet --grace 0s >/dev/null 2>&1 || true
    clean_up_processes
    [ -n "${STAGE:-}" ] || rm -rf "$stage"
}
trap clean_up EXIT

step() { printf '   %s\n' "$*"; }

# promise WORDS COMMAND…: the promise is kept if the command succeeds.
broken=0
promise() {
    local words=$1
    shift
    if "$@"; then printf '  KEPT    %s\n' "$words"; else printf '  BROKEN  %s\n' "$words" && broken=1; fi
}

# patiently COMMAND…: waits until it succeeds, for a minute at most.
patiently() {
    local until=$((SECONDS + 60))
    until "$@"; do
        [ $SECONDS -lt $until ] || { echo "waited in vain for: $*" >&2 && exit 2; }
        sleep 0.05
    done
}

is_gone() { ! kill -0 "$1" 2>/dev/null; }

# perform VARIANT: calls `naive_tool` or `with_berth`, or both of them.
perform() {
    case "${1:-both}" in
    naive) echo "The tool with the bug:" && naive_tool ;;
    berth) echo "With berth:" && with_berth ;;
    both)
        echo "The tool with the bug:" && naive_tool
        [ $broken = 1 ] || { echo "the naive tool kept the promise: this replays nothing" && exit 2; }
        broken=0
        echo "With berth:" && with_berth
        ;;
    *) echo "usage: $0 [naive|berth]" >&2 && exit 2 ;;
    esac
    exit $broken
}
