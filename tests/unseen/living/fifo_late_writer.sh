#!/bin/bash
# Opens a FIFO for reading that a process outside of the job opens for writing only when its answer is ready.
cd "$UNSEEN_TMP" || exit 1
mkfifo answers
touch asked
read -r answer < answers
[ "$answer" = "tokens 4711" ] || exit 1
echo alive
