"""Server blocks in accept(); the client (outside) comes late."""
import os, socket
TMP = os.environ["UNSEEN_TMP"]
srv = socket.create_server(("127.0.0.1", 0))
with open(TMP + "/sport.tmp", "w") as f:
    f.write(str(srv.getsockname()[1]))
os.rename(TMP + "/sport.tmp", TMP + "/sport")
print("serving", flush=True)
c, _ = srv.accept()
assert c.recv(100) == b"hi\n"
print("alive")
