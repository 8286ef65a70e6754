#!/bin/bash
# launches two background jobs and waits for both
S=${UNSEEN_SECONDS:-15}
echo "launching"
sleep "$S" & a=$!
( sleep "$(awk "BEGIN{print $S/2}")" ) & b=$!
wait "$a" && wait "$b" && echo alive
