"""What takes a second to make, made while the model is being set up: the finishing kernel, and a decoder for JPEGs."""

from __future__ import annotations

import threading
from typing import List, Optional

from ._cuda import Driver
from ._finish import SOURCE
from ._nvjpeg import NvJpeg
from ._nvrtc import compile_for

__all__ = ["Early", "begin", "take"]

_begun: Optional[Early] = None


class Early(threading.Thread):
    """Makes them on the GPU this process sees, in the context that torch and CuPy use as well."""

    def __init__(self, with_decoder: bool) -> None:
        super().__init__(name="gpulane-early", daemon=True)
        self._with_decoder = with_decoder
        self.code: List[bytes] = []
        """The kernel."""
        self.decoder: Optional[NvJpeg] = None

    def run(self) -> None:
        try:
            driver = Driver()
            self.code = compile_for(SOURCE, driver.compute_capability())
            if self.code and self._with_decoder:
                self.decoder = next(NvJpeg.candidates(driver), None)
        except (OSError, RuntimeError):
            pass  # No driver, no GPU, no room: it is tried again when it is needed, and told then.


def begin(with_decoder: bool) -> None:
    """Begins with them."""
    global _begun
    _begun = Early(with_decoder)
    _begun.start()


def take(with_decoder: bool) -> Early:
    """What was begun, or begun now; waits for it. Given once."""
    global _begun
    early, _begun = _begun, None
    if early is None:
        early = Early(with_decoder)
        early.start()
    early.join()
    return early
