#!/bin/bash
# reads the start line from a control FIFO which the launcher (outside) has open
until [ -p "$UNSEEN_TMP/control" ]; do sleep 0.1; done
echo "waiting for start"
read -r cmd < "$UNSEEN_TMP/control"
[ "$cmd" = start ] && echo alive
