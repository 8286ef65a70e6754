#!/bin/bash
cd "$UNSEEN_TMP" || exit 1
mkfifo requests answers
touch service.ready
read -r line < requests
exec sleep 1000000
