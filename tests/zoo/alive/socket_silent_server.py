"""Waits without a timeout for the answer of a server, a neighbour, that works for long before it answers."""

import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
import neighbour

server = socket.create_server(("127.0.0.1", 0))


def serve(begun):
    begun()
    connection, _ = server.accept()
    connection.recv(100)
    neighbour.be_busy()
    connection.sendall(b"answer")


neighbour.start(serve)
client = socket.create_connection(server.getsockname())
server.close()
client.sendall(b"question")
assert client.recv(100) == b"answer"
print("alive")
