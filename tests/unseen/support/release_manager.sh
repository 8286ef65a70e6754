#!/bin/bash
# Opens the gate after UNSEEN_SECONDS.
gate=$UNSEEN_TMP/gate
[ -p "$gate" ] || mkfifo "$gate" 2>/dev/null
sleep "${UNSEEN_SECONDS:-15}"
echo "go mary" > "$gate"
