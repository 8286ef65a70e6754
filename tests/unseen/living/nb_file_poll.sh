#!/bin/bash
# waits for another job's output by looking every second
echo "waiting for shards"
: > "$UNSEEN_TMP/watching"
until [ -e "$UNSEEN_TMP/READY" ]; do sleep 1; done
echo alive
