"""A database that reserves its port at once but listens only after a long recovery."""
import os
import socket
import time

seconds = float(os.environ.get("UNSEEN_SECONDS", "15"))
s = socket.socket()
s.bind(("127.0.0.1", 0))
path = os.path.join(os.environ["UNSEEN_TMP"], "db.port")
with open(path + ".new", "w") as f:
    f.write(str(s.getsockname()[1]))
os.replace(path + ".new", path)
time.sleep(seconds)
s.listen(4)
while True:
    c, _ = s.accept()
    c.sendall(b"ready\n")
    c.close()
