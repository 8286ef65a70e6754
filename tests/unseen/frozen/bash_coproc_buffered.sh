#!/bin/bash
# Shell driver talks to a scoring filter through a coprocess; the filter only answers at EOF of its input.
coproc SCORE { sort -n | tail -1; }
echo "filter pid $SCORE_PID"
for i in 3 1 2; do echo "$i" >&"${SCORE[1]}"; done
echo "frozen soon"
read -r best <&"${SCORE[0]}"
echo "best $best"
