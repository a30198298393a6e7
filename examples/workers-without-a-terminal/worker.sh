#!/bin/sh
# A worker: a session of its own, one task, the answer on standard output, the end of the session.
#   worker.sh TASK
# A worker needs no terminal, is never asked, and knows no session but its own.
set -eu
id=$(berth run --detach --agent "${AGENT:-claude}")
trap 'berth stop --quiet "$id"' EXIT
berth send "$id" "$1" --wait
