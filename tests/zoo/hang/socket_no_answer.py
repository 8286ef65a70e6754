"""A server took the connection and the question, and never answers; nobody set a timeout."""
# verdict: end
# stuck: does not answer
# at: socket_no_answer.py:stuck here

import socket

server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
client.sendall(b"GET /model.pt HTTP/1.1\r\n\r\n")
print("downloading", flush=True)
client.recv(4096)  # stuck here
