"""An event loop without a timeout that a timer of the kernel (timerfd) wakes when its time has come."""

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
loop = select.epoll()
loop.register(timer, select.EPOLLIN)
assert loop.poll()
print("alive")
