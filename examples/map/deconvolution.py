"""Richardson-Lucy deconvolution of TIFF stacks, on the GPU by CuPy.

    gpulane map examples/map/deconvolution.py:Deconvolution 'stacks/**/*.tif' --out sharp

The point spread is a Gaussian (SIGMA pixels across, SIGMA_Z pages deep, from the environment); put a measured one in its
place. Writes `ITEM.npy`, tells how much sharper each became.
"""

import hashlib
import os
import pathlib

import cupy

import gpulane


class Deconvolution(gpulane.Model):
    """One stack at a time: they are large, and each fills the GPU."""

    decode = "gray"
    batch = 1
    rounds = int(os.environ.get("ROUNDS", "20"))

    def setup(self):
        self.sigma = float(os.environ.get("SIGMA", "1.5"))
        self.sigma_z = float(os.environ.get("SIGMA_Z", "2.5"))
        self.folder = pathlib.Path(os.environ.get("SHARP", "sharp"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.spreads = {}

    def predict_batch(self, batch):
        return [self.sharpen(stack, name) for stack, name in zip(batch, self.items)]

    def sharpen(self, stack, name):
        seen = stack.astype(cupy.float32) + 1e-3
        spread = self.spread(seen.shape)
        guess = cupy.full_like(seen, seen.mean())
        for _ in range(self.rounds):
            ratio = seen / cupy.maximum(self.blurred(guess, spread), 1e-6)
            guess *= self.blurred(ratio, spread.conj())
        stem = f"{pathlib.PurePath(name).stem}-{hashlib.sha1(name.encode()).hexdigest()[:8]}.npy"
        cupy.save(str(self.folder / stem), guess)
        return {"file": stem, "pages": int(stack.shape[0]) if stack.ndim == 3 else 1, "sharper": self.gain(seen, guess)}

    def blurred(self, image, spread):
        return cupy.fft.irfftn(cupy.fft.rfftn(image) * spread, image.shape, axes=range(image.ndim))

    def spread(self, shape):
        """The Gaussian in frequencies; kept for stacks of the same shape."""
        if shape not in self.spreads:
            self.spreads = {shape: self.gaussian(shape)}
        return self.spreads[shape]

    def gaussian(self, shape):
        sigmas = [self.sigma] * len(shape)
        if len(shape) == 3:
            sigmas[0] = self.sigma_z
        total = cupy.ones((1,) * len(shape), cupy.float32)
        for axis, (side, sigma) in enumerate(zip(shape, sigmas)):
            last = axis == len(shape) - 1
            frequency = cupy.fft.rfftfreq(side) if last else cupy.fft.fftfreq(side)
            line = cupy.exp(-2 * (cupy.pi * sigma * frequency) ** 2).astype(cupy.float32)
            total = total * line.reshape([-1 if at == axis else 1 for at in range(len(shape))])
        return total

    def gain(self, before, after):
        """How much steeper edges became."""
        steep = [float(cupy.abs(cupy.diff(image, axis=-1)).mean() / image.mean()) for image in (before, after)]
        return steep[1] / max(steep[0], 1e-9)
