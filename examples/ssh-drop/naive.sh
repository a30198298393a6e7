#!/bin/sh
# An agent in the process that has the terminal. A turn is saved at its end, and SIGHUP ends the process.
#   naive.sh ask     a long turn of six steps
#   naive.sh show    what is saved
transcript=$HOME_OF_TOOL/transcript

ask() {
    echo $$ >"$HOME_OF_TOOL/pid"
    turn=
    for step in 1 2 3 4 5 6; do
        echo "step $step"
        turn="$turn step $step"
        [ $step != 3 ] || until [ -e "$HOME_OF_TOOL/go" ]; do sleep 0.05; done
    done
    echo "$turn" >>"$transcript"
}

show() { cat "$transcript" 2>/dev/null || echo nothing; }

"$@"
