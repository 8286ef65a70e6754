"""Client of a parameter server: the server accepts and reads the request but never answers."""
import os, socket, threading, time, tempfile

TMP = os.environ["UNSEEN_TMP"]
while not os.path.exists(os.path.join(TMP, "port")):
    time.sleep(0.1)
port = int(open(os.path.join(TMP, "port")).read())
s = socket.create_connection(("127.0.0.1", port))
print("connected", flush=True)
s.sendall(b"PULL layer0\n")
print("frozen soon", flush=True)
while True:
    if s.recv(65536):
        break
    threading.Event().wait()         # server went away: wait for the operator
print("got weights")
