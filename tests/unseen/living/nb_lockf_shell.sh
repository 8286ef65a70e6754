#!/bin/bash
# flock(1) around the dataset step, other job outside holds the lock
until [ -e "$UNSEEN_TMP/held" ]; do sleep 0.1; done
echo "waiting for lock"
: > "$UNSEEN_TMP/arrived"
flock "$UNSEEN_TMP/cache.lock" echo alive
