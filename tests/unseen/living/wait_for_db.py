"""Start-up of a service: retry the database port until it accepts connections."""
import os
import socket
import time

TMP = os.environ["UNSEEN_TMP"]


def db_port():
    path = os.path.join(TMP, "db.port")
    while not os.path.exists(path):
        time.sleep(0.05)
    return int(open(path).read())


def connect(port):
    delay = 0.2
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            time.sleep(delay)
            delay = min(delay * 1.5, 2.0)


def main():
    with connect(db_port()) as s:
        hello = s.recv(64)
    assert hello == b"ready\n", hello
    print("alive")


main()
