#!/bin/bash
# Takes a flock, passes its descriptor to a background child by fork and closes its own; then waits for that lock anew.
lock=$UNSEEN_TMP/stage.lock
exec 9> "$lock"
flock 9
( exec sleep "${UNSEEN_SECONDS:-15}" ) &
exec 9>&-
exec 8> "$lock"
flock 8 || exit 1
echo alive
