#!/bin/bash
# Dataset download guarded by a lock file; an earlier run was killed and left its file behind.
D=${UNSEEN_TMP:-$(mktemp -d)}
bash -c 'echo $$' > "$D/dataset.lock"       # pid of a process that's gone
echo "waiting for $D/dataset.lock"
echo "frozen soon"
while ! ( set -o noclobber; echo $$ > "$D/dataset.lock" ) 2>/dev/null; do
    sleep 2
done
echo "got the lock"
rm -f "$D/dataset.lock"
