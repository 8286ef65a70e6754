"""A server never answers, while a thread pings it over a connection that is kept: bytes pass, the work stands still."""
# verdict: tell
# stuck: does not answer
# at: ping_beside_silent_server.py:stuck here

import socket
import threading
import time

server = socket.create_server(("127.0.0.1", 0))


def connect():
    client = socket.create_connection(server.getsockname())
    return client, server.accept()[0]


def ping(kept):
    while True:
        kept.sendall(b"ping")
        time.sleep(1)


control, data = connect(), connect()
threading.Thread(target=ping, args=(control[0],), daemon=True).start()
print("waiting for weights", flush=True)
data[0].recv(4096)  # stuck here
