#!/bin/bash
# Waits at a named pipe for the release manager's word, then deploys.
set -u
gate=$UNSEEN_TMP/gate
[ -p "$gate" ] || mkfifo "$gate" 2>/dev/null

while read -r word who; do
    case $word in
        go)   break ;;
        *)    echo "unknown word: $word" >&2 ;;
    esac
done < "$gate"

touch "$UNSEEN_TMP/deployed"
echo alive
