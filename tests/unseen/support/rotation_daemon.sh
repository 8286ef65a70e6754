#!/bin/bash
# Sends SIGUSR1 to the shipper UNSEEN_SECONDS after it has announced itself.
pidfile=$UNSEEN_TMP/shipper.pid
until [ -s "$pidfile" ]; do sleep 0.1; done
sleep "${UNSEEN_SECONDS:-15}"
kill -USR1 "$(cat "$pidfile")"
