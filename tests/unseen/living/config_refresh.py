"""The configuration is refreshed under a lock by a thread that waits for the control plane."""
import os
import socket
import threading
import time

TMP = os.environ["UNSEEN_TMP"]
config_lock = threading.Lock()
config = {}
started = threading.Event()


def refresh():
    with config_lock:
        started.set()
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("127.0.0.1", 0))
        path = os.path.join(TMP, "agent.port")
        with open(path + ".new", "w") as f:
            f.write(str(s.getsockname()[1]))
        os.replace(path + ".new", path)
        config["version"] = int(s.recv(64))


def heartbeat():
    while True:
        with open(os.path.join(TMP, "heartbeat"), "w") as f:
            f.write("%.1f\n" % time.time())
        time.sleep(2)


def main():
    threading.Thread(target=heartbeat, daemon=True).start()
    threading.Thread(target=refresh, daemon=True).start()
    started.wait()
    with config_lock:
        assert config["version"] == 7
    print("alive")


main()
