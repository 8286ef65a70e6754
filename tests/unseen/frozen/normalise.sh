#!/bin/bash
# Normalises the keys of a word list through one long running helper process.
set -u
tmp=${UNSEEN_TMP:-$(mktemp -d)}

printf '%s\n' pear Apple fig apple Quince cherry > "$tmp/words"

coproc NORM { tr 'A-Z' 'a-z' | sort -u; }

while read -r word; do
    echo "$word" >&"${NORM[1]}"
    read -r key <&"${NORM[0]}"
    echo "$word -> $key" >> "$tmp/keys"
done < "$tmp/words"

eval "exec ${NORM[1]}>&-"
wait "$NORM_PID"
echo "normalised $(wc -l < "$tmp/keys") words"
