"""A collection window: a select loop over sockets on which nobody happens to send."""
import os
import select
import socket
import time

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))


def main():
    tcp = socket.socket()
    tcp.bind(("127.0.0.1", 0))
    tcp.listen(8)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    end = time.monotonic() + SECONDS
    packets = []
    while True:
        left = end - time.monotonic()
        if left <= 0:
            break
        ready, _, _ = select.select([tcp, udp], [], [], min(left, 4.0))
        for s in ready:
            if s is udp:
                packets.append(udp.recv(1500))
            else:
                c, _ = tcp.accept()
                c.close()
    print("alive")


main()
