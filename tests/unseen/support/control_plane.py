"""Sends the new configuration version to the agent after UNSEEN_SECONDS."""
import os
import socket
import time

path = os.path.join(os.environ["UNSEEN_TMP"], "agent.port")
start = time.monotonic()
while not os.path.exists(path):
    time.sleep(0.05)
port = int(open(path).read())
time.sleep(max(0.0, float(os.environ.get("UNSEEN_SECONDS", "15")) - (time.monotonic() - start)))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(b"7", ("127.0.0.1", port))
    time.sleep(1)
