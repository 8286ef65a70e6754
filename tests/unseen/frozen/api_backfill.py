"""Backfill orders over a pool of three connections, with statsd-like metrics."""
import collections
import socket
import threading
import time

slots = threading.BoundedSemaphore(3)
sums = collections.Counter()

agg = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
agg.bind(("127.0.0.1", 0))


def aggregate():
    while True:
        name, n = agg.recv(512).decode().split(":")
        sums[name] += int(n)


def ping_metrics():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while True:
        s.sendto(b"backfill.alive:1", agg.getsockname())
        time.sleep(1)


def fetch(order):
    slots.acquire()
    if order % 7 == 0:
        raise ValueError("order %d has no lines" % order)
    data = {"order": order, "lines": order % 5}
    slots.release()
    return data


def main():
    for f in (aggregate, ping_metrics):
        threading.Thread(target=f, daemon=True, name=f.__name__).start()
    got = []
    for order in range(1, 100):
        try:
            got.append(fetch(order))
        except ValueError as e:
            print("skipped:", e, flush=True)
    print("backfilled", len(got), "orders")


main()
