#!/bin/bash
# compile the C/C++ file given and become it
D=${UNSEEN_TMP:-$(mktemp -d)}
b=$(basename "${1%.*}")
case $1 in *.cpp) cc=g++ ;; *) cc=gcc ;; esac
$cc -O1 -pthread -o "$D/$b" "$1" && exec "$D/$b"
