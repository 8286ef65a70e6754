"""Answers the stream of l18 after a while."""

import socket
from common import *
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
publish("port", s.getsockname()[1])
c, _ = s.accept()
c.recv(1024)
time.sleep(SECONDS)
c.sendall(b"version 4\n")
c.close()
