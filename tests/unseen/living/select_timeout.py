"""Control loop on a socketpair with select(); nobody says anything within the grace time."""
import os, select, socket
S = float(os.environ.get("UNSEEN_SECONDS", 15))
a, b = socket.socketpair()
print("listening for control messages", flush=True)
for _ in range(3):
    r, _, _ = select.select([a], [], [], S / 3)
    assert not r
print("alive")
