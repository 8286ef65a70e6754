"""What is in a text? One worker process per lane loads this model once and is given batches of texts."""

import gpulane


class Words(gpulane.Model):
    """Counts the words of a text and finds its longest and most frequent ones."""

    decode = "text"

    def setup(self):
        """Runs once in each worker: the place to load weights."""
        self.common = {"a", "and", "of", "the", "to"}

    def predict_batch(self, batch):
        """One result per text; the keys become columns."""
        return [self.describe(text) for text in batch]

    def describe(self, text):
        words = text.lower().split()
        telling = [word for word in words if word not in self.common]
        frequent = max(sorted(set(telling)), key=telling.count, default=None)
        return {"words": len(words), "longest": max(words, key=len, default=None), "frequent": frequent}
