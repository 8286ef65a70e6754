"""Counts words: plain Python, no packages. What `gpulane demo map` runs.

    gpulane map examples/map/words.py:Words 'texts/**/*.txt' --out counts
"""

import collections

import gpulane


class Words(gpulane.Model):
    """A dict per item becomes a column per key."""

    decode = "text"

    def predict_batch(self, batch):
        return [self.count(text) for text in batch]

    def count(self, text):
        words = [word.strip(".,;:!?\"'()").lower() for word in text.split()]
        common = collections.Counter(filter(None, words)).most_common(1)
        return {
            "words": len(words),
            "distinct": len(set(words)),
            "longest": max(words, key=len, default=""),
            "commonest": common[0][0] if common else "",
        }
