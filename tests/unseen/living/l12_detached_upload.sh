#!/bin/bash
# Starts a detached uploader (its own session, as daemons do) and waits for its word on a pipe.
set -eu
seconds=${UNSEEN_SECONDS:-15}
cd "${UNSEEN_TMP:?}"
mkfifo uploaded
limit=$(( ${seconds%.*} + 60 ))
setsid -f timeout "$limit" bash -c "sleep $seconds; echo ok >uploaded" </dev/null >/dev/null 2>&1
read -r answer <uploaded
[ "$answer" = ok ]
echo alive
