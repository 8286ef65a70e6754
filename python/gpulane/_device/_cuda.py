"""The CUDA driver through ctypes: all that is needed beside torch or CuPy, in the context they use.

The driver's calls answer with a code and keep no last error that someone else could stumble over later.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_void_p
from typing import Any, Optional, Sequence

__all__ = ["CudaError", "Driver", "Event"]

OUT_OF_MEMORY = 2
NON_BLOCKING = 1
COMPUTE_MAJOR, COMPUTE_MINOR = 75, 76


class CudaError(RuntimeError):
    """A call of the driver failed."""

    def __init__(self, what: str, code: int, text: str) -> None:
        super().__init__(f"{what}: {text}")
        self.code = code


class Driver:
    """The driver, with the primary context of the one GPU this process sees."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", c_uint(0))
        self._device = c_int()
        self.call("cuDeviceGet", byref(self._device), c_int(0))
        self._context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(self._context), self._device)
        self.enter()

    def call(self, name: str, *args: Any) -> None:
        """Calls the driver; a `CudaError` if it says no."""
        code = getattr(self._cuda, name)(*args)
        if code:
            raise CudaError(name, code, self._text(code))

    def _text(self, code: int) -> str:
        text = c_char_p()
        self._cuda.cuGetErrorName(code, byref(text))
        return (text.value or str(code).encode()).decode()

    def enter(self) -> None:
        """Makes the context that of the calling thread."""
        self.call("cuCtxSetCurrent", self._context)

    def compute_capability(self) -> str:
        """Such as `90`."""
        major, minor = c_int(), c_int()
        self.call("cuDeviceGetAttribute", byref(major), c_int(COMPUTE_MAJOR), self._device)
        self.call("cuDeviceGetAttribute", byref(minor), c_int(COMPUTE_MINOR), self._device)
        return f"{major.value}{minor.value}"

    def name(self) -> str:
        """The GPU's, for a person."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, c_int(256), self._device)
        return text.value.decode("utf-8", "replace")

    def total_memory(self) -> int:
        """Bytes the GPU has."""
        total = c_size_t()
        self.call("cuDeviceTotalMem_v2", byref(total), self._device)
        return total.value

    def is_broken(self) -> bool:
        """Whether an earlier fault has made the context useless: then every call fails for good."""
        try:
            self.enter()
            self.call("cuCtxSynchronize")
        except CudaError as error:
            return error.code != OUT_OF_MEMORY
        return False

    def register(self, address: int, size: int) -> Optional[str]:
        """Pins host memory for fast copies; what hindered it, if anything did."""
        try:
            self.call("cuMemHostRegister_v2", c_void_p(address), c_size_t(size), c_uint(0))
        except CudaError as error:
            return str(error)
        return None

    def unregister(self, address: int) -> None:
        """Undoes `register`."""
        try:
            self.call("cuMemHostUnregister", c_void_p(address))
        except CudaError:
            pass  # The context is gone, and with it what was registered.

    def to_device(self, target: int, source: int, size: int, stream: int) -> None:
        """Copies from host memory, without waiting where that is pinned."""
        if size:
            self.call("cuMemcpyHtoDAsync_v2", c_void_p(target), c_void_p(source), c_size_t(size), c_void_p(stream))

    def wait_for(self, event: Event, stream: int) -> None:
        """Later work of the stream begins after the event."""
        self.call("cuStreamWaitEvent", c_void_p(stream), event.handle, c_uint(0))

    def load(self, image: bytes, function: str) -> c_void_p:
        """A kernel out of compiled code."""
        module, kernel = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", byref(module), c_char_p(image))
        self.call("cuModuleGetFunction", byref(kernel), module, c_char_p(function.encode()))
        return kernel

    def launch(
        self, kernel: c_void_p, grid: Sequence[int], block: Sequence[int], stream: int, args: Sequence[Any]
    ) -> None:
        """Launches a kernel; `args` are ctypes values."""
        pointers = (c_void_p * len(args))(*[ctypes.cast(ctypes.pointer(arg), c_void_p) for arg in args])
        sides = [c_uint(side) for side in (*grid, *block)]
        self.call("cuLaunchKernel", kernel, *sides, c_uint(0), c_void_p(stream), pointers, None)


class Event:
    """A point in a stream's work."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.handle = c_void_p()
        driver.call("cuEventCreate", byref(self.handle), c_uint(1))  # Waiting for it leaves the core to others.

    def record(self, stream: int) -> None:
        """Here."""
        self._driver.call("cuEventRecord", self.handle, c_void_p(stream))

    def wait(self) -> None:
        """Waits until the work up to here is done."""
        self._driver.call("cuEventSynchronize", self.handle)

    def seconds_since(self, earlier: Event) -> float:
        """Of work that is done."""
        millis = c_float()
        try:
            self._driver.call("cuEventElapsedTime", byref(millis), earlier.handle, self.handle)
        except CudaError:
            # From CUDA 13 on the name stands for a newer call with the same arguments and another symbol.
            self._driver.call("cuEventElapsedTime_v2", byref(millis), earlier.handle, self.handle)
        return millis.value / 1000

    def __del__(self) -> None:
        if self.handle:
            self._driver._cuda.cuEventDestroy_v2(self.handle)
