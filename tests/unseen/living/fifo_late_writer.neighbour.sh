#!/bin/bash
cd "$UNSEEN_TMP" || exit 1
until [ -e asked ]; do sleep 0.2; done
sleep "${UNSEEN_SECONDS:-15}"
echo "tokens 4711" > answers
exec sleep 1000000
