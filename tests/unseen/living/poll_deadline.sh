#!/bin/sh
# Polls for the _SUCCESS marker of another job, every 3 s, with a deadline of its own.
cd "$UNSEEN_TMP" || exit 1
touch want
deadline=$(( $(date +%s) + ${UNSEEN_SECONDS:-15} * 3 + 60 ))
until [ -e _SUCCESS ]; do
    [ "$(date +%s)" -gt "$deadline" ] && { echo "too late"; exit 1; }
    sleep 3
done
echo alive
