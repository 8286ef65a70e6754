"""Submits work to a spool daemon, handing it the writing end of a pipe for the results."""
import os, socket, time

os.chdir(os.environ["UNSEEN_TMP"])
while not os.path.exists("spool.ready"):
    time.sleep(0.1)
r, w = os.pipe()
s = socket.socket(socket.AF_UNIX)
s.connect("spool.sock")
socket.send_fds(s, [b"render scene-4\n"], [w])
s.close()
os.close(w)
result = b""
while chunk := os.read(r, 4096):
    result += chunk
if result == b"done\n":
    print("alive")
