"""Waits with a limit for datagrams, which come now after half a second, now after more than two, and are counted nowhere."""

import os
import socket
import time

# For longer than `outside`, which must not end what never waits for so long.
END = time.monotonic() + 3 * float(os.environ.get("ZOO_SECONDS", "8"))
PAUSES = [0.5, 2.5, 1, 2, 0.7, 2.5, 1.5, 0.5]

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
if os.fork() == 0:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    turn = 0
    while time.monotonic() < END:
        sender.sendto(b"bytes", receiver.getsockname())
        time.sleep(PAUSES[turn % len(PAUSES)])
        turn += 1
    sender.sendto(b"end", receiver.getsockname())
    os._exit(0)
receiver.settimeout(30)
while receiver.recv(512) != b"end":
    pass
os.wait()
print("alive")
