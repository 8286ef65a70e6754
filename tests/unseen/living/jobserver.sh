#!/bin/bash
# Build with two job slots: tokens lie in a named pipe, as make's jobserver does it.
set -u
S=${UNSEEN_SECONDS:-15}
half=$(awk -v s="$S" 'BEGIN { print s / 2 }')
mkfifo "$UNSEEN_TMP/tokens"
exec 9<>"$UNSEEN_TMP/tokens"
printf '++' >&9

compile() {
    sleep "$half"                     # the licence server's queue
    echo "$1.o" >> "$UNSEEN_TMP/objects"
    printf '+' >&9
}

for unit in main parse codegen link; do
    read -r -n1 -u9 token
    compile "$unit" &
done
wait
[ "$(wc -l < "$UNSEEN_TMP/objects")" = 4 ] || exit 1
echo alive
