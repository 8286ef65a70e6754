"""Frames over a stream socket, as docs/map-protocol.md has them. Knows bytes, not what they mean."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Tuple

__all__ = ["Connection", "Forked", "Frame", "WireError", "connect", "encode", "take_frame"]

VERSION = 1
MAGIC = b"GL"
LONGEST_HEAD = 16 << 20
LONGEST_BODY = 4 << 30
PREFIX = struct.Struct("<2sBBIQ")
CHUNK = 1 << 16
"""Bytes asked of the socket at once; frames to a worker are a few hundred."""

SIGN_OF_LIFE = 5.0
"""Seconds between two while there is nothing to do."""

ROOM_FOR_FD = socket.CMSG_SPACE(struct.calcsize("i"))
"""The kernel never merges bytes across a passed descriptor, so there is one at most in each read."""


class WireError(Exception):
    """The other side broke the rules of the protocol, so that the connection cannot go on."""


class Forked(SystemExit):
    """Ends a process that the model has forked. The connection is its parent's: it must not speak on it."""


class Frame(NamedTuple):
    """One frame."""

    head: Dict[str, Any]
    body: bytes
    fd: Optional[int]
    """A descriptor that came with it; its owner closes it."""


def encode(head: Dict[str, Any], body_bytes: int = 0) -> bytes:
    """A frame up to its body."""
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if len(text) > LONGEST_HEAD:
        raise WireError(f"a frame's head of {len(text)} bytes is longer than {LONGEST_HEAD}")
    if body_bytes > LONGEST_BODY:
        raise WireError(f"a frame's body of {body_bytes} bytes is longer than {LONGEST_BODY}; use smaller batches")
    return PREFIX.pack(MAGIC, VERSION, 0, len(text), body_bytes) + text


def take_frame(held: bytearray) -> Optional[Tuple[Dict[str, Any], bytes]]:
    """The first frame in `held`, which loses it; nothing while it is not whole."""
    if len(held) < PREFIX.size:
        return None
    magic, version, zero, head_bytes, body_bytes = PREFIX.unpack_from(held)
    if magic != MAGIC or zero != 0:
        raise WireError("what came is no frame")
    if version != VERSION:
        raise WireError(f"a frame of version {version}; this worker speaks version {VERSION}")
    if head_bytes > LONGEST_HEAD or body_bytes > LONGEST_BODY:
        raise WireError(f"a frame too long: head {head_bytes}, body {body_bytes} bytes")
    end = PREFIX.size + head_bytes
    if len(held) < end + body_bytes:
        return None
    try:
        head = json.loads(held[PREFIX.size : end].decode("utf-8"))
    except ValueError as error:
        raise WireError(f"a frame's head is not JSON: {error}") from None
    if not isinstance(head, dict) or not isinstance(head.get("frame"), str):
        raise WireError("a frame's head is no object with a `frame`")
    body = bytes(held[end : end + body_bytes])
    del held[: end + body_bytes]
    return head, body


class Connection:
    """A socket that speaks frames. One thread may receive while others send."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._held = bytearray()
        self._fds: Deque[int] = deque()
        self._sending = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process has made it, and not the one that has forked this process."""
        return os.getpid() == self._pid

    def send(self, frame: str, *body: Any, **fields: Any) -> None:
        """Sends a frame; `body` are buffers, sent one after the other without being joined."""
        if not self.is_ours:
            raise Forked(1)
        parts = [memoryview(part).cast("B") for part in body if len(part)]
        head = encode({"frame": frame, **fields}, sum(part.nbytes for part in parts))
        with self._sending:
            self._send_all([memoryview(head), *parts])

    def _send_all(self, parts: List[memoryview]) -> None:
        while parts:
            if len(parts) == 1:
                # Counted as this process's own output, by which the engine sees that an idle worker lives; sendmsg
                # is not.
                sent = os.write(self._socket.fileno(), parts[0])
            else:
                sent = self._socket.sendmsg(parts[:64])
            while parts and sent >= parts[0].nbytes:
                sent -= parts.pop(0).nbytes
            if sent:
                parts[0] = parts[0][sent:]

    def receive(self) -> Frame:
        """Waits for the next frame. `ConnectionError` when the other side is gone."""
        if not self.is_ours:
            raise Forked(1)
        while True:
            taken = take_frame(self._held)
            if taken is not None:
                fd = self._fds.popleft() if self._fds and taken[0]["frame"] == "ring" else None
                return Frame(taken[0], taken[1], fd)
            data, ancillary, _, _ = self._socket.recvmsg(CHUNK, ROOM_FOR_FD, socket.MSG_CMSG_CLOEXEC)
            for level, kind, payload in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    whole = len(payload) - len(payload) % 4
                    self._fds.extend(struct.unpack(f"{whole // 4}i", payload[:whole]))
            if not data:
                raise ConnectionError("the feeder closed the connection")
            self._held += data

    def wait(self) -> None:
        """Waits until something comes. The feeder may be listing millions of files: whoever watches over this process
        sees that it lives."""
        while not self._held and not select.select([self._socket], [], [], SIGN_OF_LIFE)[0]:
            with open(os.devnull, "wb", buffering=0) as nothing:
                nothing.write(b".")

    def shut(self) -> None:
        """Ends the connection both ways, which also wakes a thread that receives. Not by a forked process: it would end
        its parent's."""
        if not self.is_ours:
            return
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # Gone already.

    def close(self) -> None:
        """Gives back the socket and descriptors nobody took."""
        while self._fds:
            os.close(self._fds.popleft())
        self._socket.close()


def connect(folder: str, patience: float = 60.0) -> Connection:
    """Connects to the feeder whose socket lies in `folder`, trying again while there is nobody."""
    deadline = time.monotonic() + patience
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Through the directory's descriptor: a socket's name holds 107 bytes, a path may have more.
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                sock.connect(f"/proc/self/fd/{at}/feed.sock")
            finally:
                os.close(at)
            return Connection(sock)
        except OSError as error:
            sock.close()
            if time.monotonic() >= deadline:
                raise ConnectionError(f"no feeder answers at {folder}/feed.sock: {error.strerror or error}") from None
            time.sleep(0.05)  # Nothing tells when a socket begins to listen; 20 looks a second cost nothing.
