#!/bin/bash
# Build step serialised over the machine by flock(1); another build is at work.
set -eu
cd "${UNSEEN_TMP:?}"
until [ -e held ]; do sleep 0.1; done
(
    flock 9
    echo "int main(void){return 0;}" >kernel.c
    cksum kernel.c >kernel.sum
) 9>build.lock
echo alive
