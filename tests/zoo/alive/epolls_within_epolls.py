"""An event loop of several epolls, one within the other: a timer of the kernel (timerfd) is in the innermost."""

import ctypes
import os
import select
import struct

libc = ctypes.CDLL(None, use_errno=True)
CLOCK_MONOTONIC = 1
timer = libc.timerfd_create(CLOCK_MONOTONIC, 0)
assert timer >= 0
spec = struct.pack("@qqqq", 0, 0, int(float(os.environ.get("ZOO_SECONDS", "8"))), 0)
assert libc.timerfd_settime(timer, 0, spec, None) == 0
silent, _ = os.pipe()
# The kernel allows four below the outermost.
loops = [select.epoll() for _ in range(4)]
loops[3].register(timer, select.EPOLLIN)
for outer, inner in zip(loops, loops[1:]):
    outer.register(inner.fileno(), select.EPOLLIN)
    outer.register(silent, select.EPOLLIN)
assert loops[0].poll()
print("alive")
