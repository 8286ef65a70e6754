#!/bin/bash
# Worker that takes its next command from a control pipe, opened by the operator when needed.
set -eu
cd "${UNSEEN_TMP:?}"
mkfifo control
read -r command <control
[ "$command" = continue ] && echo alive
