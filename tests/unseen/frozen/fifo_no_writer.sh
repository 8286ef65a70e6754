#!/bin/bash
# Control FIFO: the trainer waits for a "start" line from a launcher that doesn't exist.
D=${UNSEEN_TMP:-$(mktemp -d)}
mkfifo "$D/control"
echo "control fifo $D/control"
echo "frozen soon"
while read -r cmd; do
    [ "$cmd" = start ] && break
done < "$D/control"
echo "started"
