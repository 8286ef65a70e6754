"""A process that Python's fork server has made waits for a connection, which a neighbour makes when its own work is done."""

import multiprocessing
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
import neighbour


def serve(port):
    with socket.create_server(("127.0.0.1", port)) as server:
        connection, _ = server.accept()
        assert connection.recv(1) == b"x"


def find_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


if __name__ == "__main__":
    port = find_port()

    def connect(begun):
        begun()
        neighbour.be_busy()
        for _ in range(100):
            try:
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.sendall(b"x")
                    return
            except ConnectionRefusedError:
                time.sleep(0.1)

    neighbour.start(connect)
    server = multiprocessing.get_context("forkserver").Process(target=serve, args=(port,))
    server.start()
    server.join()
    assert server.exitcode == 0
    print("alive")
