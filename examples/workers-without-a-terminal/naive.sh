#!/bin/sh
# A CLI with one "current session" for all of the account, and end-of-file taken for a yes.
#   naive.sh run TASK    replaces the current session, waits for the end of the new one
#   naive.sh stop ID     asks first; the first fix of this bug added that
home=$HOME_OF_TOOL
current=$home/current

run() {
    old=$(cat "$current" 2>/dev/null)
    if [ -n "$old" ] && kill -0 "$old" 2>/dev/null; then
        printf 'Session %s is running. Replace it? [Y/n] ' "$old" >&2
        read -r answer || answer=y # end of file
        [ "$answer" = y ] && kill "$old"
    fi
    sh -c "until [ -e '$home/go' ]; do sleep 0.05; done; echo 'ECHO: $1'" &
    echo $! >"$current"
    echo "$!" >>"$home/started"
    wait $!
}

stop() {
    printf 'Stop session %s? [y/N] ' "$1" >&2
    read -r answer || answer=n
    if [ "$answer" = y ]; then kill "$1"; else echo Cancelled.; fi
}

"$@"
