#!/bin/bash
# Sends lines to a sort coprocess and reads the result without closing its input; a background loop keeps beating.
( while :; do date +%s > "$UNSEEN_TMP/heartbeat"; sleep 1; done ) &
coproc sort -n
for i in $(seq 1 500); do echo $((i * 7919 % 1000)); done >&"${COPROC[1]}"
echo "sent 500 lines"
read -r smallest <&"${COPROC[0]}"
echo "smallest: $smallest"
