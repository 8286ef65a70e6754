"""Keeps the write end of a pipe that l17 reads."""

import socket
from common import *
os.chdir(TMP)
s = socket.socket(socket.AF_UNIX); s.bind("spool.sock"); s.listen()
publish("spool.ready", "")
c, _ = s.accept()
_, fds, _, _ = socket.recv_fds(c, 1024, 4)
c.close()
time.sleep(SECONDS)
os.write(fds[0], b"done\n")
os.close(fds[0])
