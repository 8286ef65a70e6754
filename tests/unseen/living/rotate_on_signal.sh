#!/bin/bash
# Log shipper: does nothing until the rotation daemon sends it SIGUSR1.
set -u
rotated=
trap 'rotated=1' USR1
echo "$$" > "$UNSEEN_TMP/shipper.pid.new"
mv "$UNSEEN_TMP/shipper.pid.new" "$UNSEEN_TMP/shipper.pid"

while [ -z "$rotated" ]; do
    sleep infinity &
    nap=$!
    wait "$nap"
    kill "$nap" 2>/dev/null
done

gzip -c /etc/hostname > "$UNSEEN_TMP/log.1.gz"
echo alive
