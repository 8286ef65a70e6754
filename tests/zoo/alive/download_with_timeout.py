"""Waits for the network with a timeout, and every half second a few bytes arrive from a thread."""

import os
import socket
import threading
import time

END = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))


def serve(server):
    connection, _ = server.accept()
    while time.monotonic() < END:
        connection.sendall(b"bytes")
        time.sleep(0.5)
    connection.close()


server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=(server,)).start()
client = socket.create_connection(server.getsockname())
client.settimeout(30)
while client.recv(4096):
    pass
print("alive")
