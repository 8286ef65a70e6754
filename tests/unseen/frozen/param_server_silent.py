"""Pushes gradients to a parameter server that never answers, while a thread pings it over a kept connection."""
import os, random, socket, struct, threading, time

tmp = os.environ["UNSEEN_TMP"]
port_file = os.path.join(tmp, "ps.port")
while not os.path.exists(port_file):
    time.sleep(0.05)
port = int(open(port_file).read())


def ping():
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(b"C")
    while True:
        s.sendall(b"ping")
        s.recv(4)
        time.sleep(1)


threading.Thread(target=ping, daemon=True).start()
data = socket.create_connection(("127.0.0.1", port))
data.sendall(b"D")
grad = [random.gauss(0, 1) for _ in range(100000)]
print("step 0 gradient norm", round(sum(g * g for g in grad) ** 0.5, 3), flush=True)
data.sendall(struct.pack("1000d", *grad[:1000]))
weights = b""
while len(weights) < 8000:
    chunk = data.recv(8000 - len(weights))
    if not chunk:
        raise SystemExit("server gone")
    weights += chunk
print("step 1")
