#!/bin/bash
# Asks a tokenizer service outside of the job through a FIFO and opens the answer FIFO, which the service never opens.
cd "$UNSEEN_TMP" || exit 1
until [ -e service.ready ]; do sleep 0.1; done
words=$(seq 1 20000 | md5sum)
echo "corpus $words"
echo "tokenize corpus.txt" > requests
read -r answer < answers
echo "tokens: $answer"
