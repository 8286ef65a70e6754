"""Blocks in recv() without timeout; the parameter server outside answers late."""
import os, socket, time
TMP = os.environ["UNSEEN_TMP"]
while not os.path.exists(TMP + "/port"):
    time.sleep(0.1)
s = socket.create_connection(("127.0.0.1", int(open(TMP + "/port").read())))
s.sendall(b"PULL layer0\n")
print("pulling weights", flush=True)
assert s.recv(100) == b"WEIGHTS\n"
print("alive")
