"""Starts a program under odd circumstances: `launch.py JSON PROGRAM…` changes its process as JSON says, then execs.

Owns what must be done between fork and exec; done here because a threaded Python must not do it itself.
"""

import ctypes
import json
import os
import resource
import signal
import sys

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18


def relay(child: int) -> None:
    """Ends as the child does."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def main() -> None:
    wish = json.loads(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    if "boot" in wish or "processes" in wish:
        if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
            raise OSError(ctypes.get_errno(), "unshare")
    if "processes" in wish:
        # A PID namespace, as in a container; "foreign": /proc stays that of another one.
        if libc.unshare(CLONE_NEWPID):
            raise OSError(ctypes.get_errno(), "unshare")
        if child := os.fork():
            relay(child)
        if wish["processes"] == "own" and libc.mount(b"proc", b"/proc", b"proc", 0, None):
            raise OSError(ctypes.get_errno(), "mount")
    if "boot" in wish:
        # Another boot id, as after a power cut, seen by this process and what it starts.
        if libc.mount(wish["boot"].encode(), b"/proc/sys/kernel/random/boot_id", None, MS_BIND, None):
            raise OSError(ctypes.get_errno(), "mount")
    if "autogroup" in wish:
        os.setsid()
    for name, number in wish.get("limits", {}).items():
        resource.setrlimit(getattr(resource, name), (number, number))
    if "umask" in wish:
        os.umask(wish["umask"])
    for number in wish.get("ignore", []):
        signal.signal(number, signal.SIG_IGN)
    if wish.get("block"):
        signal.pthread_sigmask(signal.SIG_BLOCK, wish["block"])
    for handle in wish.get("close", []):
        os.close(handle)
    for handle, path in wish.get("open", {}).items():
        os.dup2(os.open(path, os.O_RDWR), int(handle))
    if "user" in wish:
        os.setgroups([])
        os.setgid(wish["user"])
        os.setuid(wish["user"])
    os.execv(sys.argv[2], sys.argv[2:])


main()
