#!/bin/bash
# Launch script: the trainer writes its metrics to a named pipe, we keep the best score.
set -u
cd "${UNSEEN_TMP:?}"
rm -f metrics.fifo
mkfifo metrics.fifo

start_trainer() {
    # the config is missing on this node: the trainer stops before it opens the pipe
    [ -f config.yaml ] || { echo "config.yaml: no such file" >trainer.log; return 2; }
    echo "acc 0.91" >metrics.fifo
}

start_trainer &
best=0
while read -r name value; do
    [ "$name" = acc ] && best=$value
done <metrics.fifo
wait
echo "best accuracy $best"
