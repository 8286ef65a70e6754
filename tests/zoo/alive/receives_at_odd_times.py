"""A thread receives from somebody outside with a limit, now after half a second, now after more than two; the main one waits for it."""

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor

# For longer than `outside`, which must not end what never waits for so long.
END = time.monotonic() + 3 * float(os.environ.get("ZOO_SECONDS", "8"))


def receive():
    client = socket.create_connection(("127.0.0.1", int(os.environ["ZOO_ODD"])))
    client.settimeout(30)
    while time.monotonic() < END:
        client.recv(1 << 16)


ThreadPoolExecutor(1).submit(receive).result()
print("alive")
