"""Evens out the illumination of microscope images: divides by a smooth estimate of the background, on the GPU by CuPy.

    gpulane map examples/map/illumination.py:Illumination 'plate/**/*.tif' --out corrected

Reads 8- and 16-bit TIFF (a stack of pages is taken page by page), writes `ITEM.npy` beside the results, and tells how uneven each was.
"""

import hashlib
import os
import pathlib

import cupy
import cupyx.scipy.ndimage

import gpulane


class Illumination(gpulane.Model):
    """`gray` without a size: every image as it is, 16 bits kept. So a batch is a list."""

    decode = "gray"
    batch = 16

    def setup(self):
        self.folder = pathlib.Path(os.environ.get("CORRECTED", "corrected"))
        self.folder.mkdir(parents=True, exist_ok=True)

    def predict_batch(self, batch):
        return [self.correct(image, name) for image, name in zip(batch, self.items)]

    def correct(self, image, name):
        pixels = image.astype(cupy.float32)
        sides = pixels.shape[-2:]
        width = max(sides) / 8
        blur = (0,) * (pixels.ndim - 2) + (width, width)
        background = cupyx.scipy.ndimage.gaussian_filter(pixels, blur, mode="nearest")
        background = cupy.maximum(background, 1)
        flat = pixels / background * background.mean(axis=(-2, -1), keepdims=True)
        most = 255 if image.dtype == cupy.uint8 else 65535
        corrected = cupy.clip(flat + 0.5, 0, most).astype(image.dtype)
        # By its name and a short hash, so that two images of one name do not overwrite each other.
        stem = f"{pathlib.PurePath(name).stem}-{hashlib.sha1(name.encode()).hexdigest()[:8]}.npy"
        cupy.save(str(self.folder / stem), corrected)
        return {
            "file": stem,
            "uneven": float(background.std() / background.mean()),
            "mean_before": float(pixels.mean()),
            "mean_after": float(corrected.mean()),
        }
