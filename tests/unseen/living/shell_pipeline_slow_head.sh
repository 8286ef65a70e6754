#!/bin/bash
# slow producer | sort | reader: everything downstream is blocked on its pipe
set -o pipefail
S=${UNSEEN_SECONDS:-15}
echo "pipeline"
{ echo 2; sleep "$S"; echo 1; } | sort -n | { read -r x; [ "$x" = 1 ]; cat >/dev/null; } && echo alive
