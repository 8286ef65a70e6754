"""Waits for the network without a timeout, and every half second a few bytes arrive from another process."""

import os
import socket
import time

END = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))

server = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    connection, _ = server.accept()
    while time.monotonic() < END:
        connection.sendall(b"bytes")
        time.sleep(0.5)
    connection.close()
    os._exit(0)
client = socket.create_connection(server.getsockname())
server.close()
while client.recv(4096):
    pass
os.wait()
print("alive")
