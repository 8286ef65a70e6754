"""A web server that accepts connections and never answers."""
import os
import socket
import time

s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(16)
path = os.path.join(os.environ["UNSEEN_TMP"], "port")
with open(path + ".new", "w") as f:
    f.write(str(s.getsockname()[1]))
os.replace(path + ".new", path)
kept = []
while True:
    kept.append(s.accept()[0])
