"""Sentence embeddings, for search and clustering.

    gpulane map examples/map/sentences.py:Sentences texts.jsonl:text --decode value --out embeddings

Needs torch and transformers, and a model on this machine (or fetched): SENTENCES_MODEL names it. Without that it says so and
stops; it does not make up vectors.
"""

import os

import torch

import gpulane

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"


class Sentences(gpulane.Model):
    """Mean of the last layer over the words, of length one."""

    decode = "value"
    batch = 512

    def setup(self):
        name = os.environ.get("SENTENCES_MODEL", DEFAULT)
        try:
            import transformers

            self.tokens = transformers.AutoTokenizer.from_pretrained(name)
            net = transformers.AutoModel.from_pretrained(name)
        except ImportError:
            raise RuntimeError("this example needs the package transformers: pip install transformers") from None
        except OSError as error:
            raise RuntimeError(
                f"the model {name} is neither here nor can it be fetched; set SENTENCES_MODEL to a folder with one ({error})"
            ) from None
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.net = net.to(self.device).eval()
        if self.device == "cuda":
            self.net = self.net.to(torch.bfloat16)

    @torch.inference_mode()
    def predict_batch(self, batch):
        # Sorted by length, so that short texts are not filled up to the longest of all.
        order = sorted(range(len(batch)), key=lambda at: len(batch[at]))
        vectors = [None] * len(batch)
        for start in range(0, len(order), 64):
            part = order[start : start + 64]
            tokens = self.tokens([batch[at] for at in part], padding=True, truncation=True, return_tensors="pt")
            tokens = tokens.to(self.device)
            words = self.net(**tokens).last_hidden_state.float()
            counted = tokens["attention_mask"].unsqueeze(-1)
            mean = (words * counted).sum(1) / counted.sum(1).clamp(min=1)
            for at, vector in zip(part, torch.nn.functional.normalize(mean, dim=1)):
                vectors[at] = vector
        return {"embedding": vectors}
