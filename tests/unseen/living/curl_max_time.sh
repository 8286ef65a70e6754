#!/bin/bash
# metadata service that accepts but never answers; curl gives up by itself
S=${UNSEEN_SECONDS:-15}
until [ -s "$UNSEEN_TMP/port" ]; do sleep 0.1; done
echo "asking metadata service"
curl -s -o /dev/null --max-time "$S" "http://127.0.0.1:$(cat "$UNSEEN_TMP/port")/meta"
[ $? -eq 28 ] && echo alive
