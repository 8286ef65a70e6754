#!/bin/sh
cd "$UNSEEN_TMP" || exit 1
until [ -e want ]; do sleep 0.2; done
sleep "${UNSEEN_SECONDS:-15}"
touch _SUCCESS
exec sleep 1000000
