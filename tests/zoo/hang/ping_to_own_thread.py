"""A semaphore was never given back, while a thread pings another of the same program: both wake, the work stands still."""
# verdict: tell
# stuck: semaphore
# at: ping_to_own_thread.py:stuck here

import socket
import threading
import time

collector = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
collector.bind(("127.0.0.1", 0))


def collect():
    while True:
        collector.recv(512)


def ping():
    metrics = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while True:
        metrics.sendto(b"alive:1", collector.getsockname())
        time.sleep(1)


for thread in (collect, ping):
    threading.Thread(target=thread, daemon=True).start()
slots = threading.BoundedSemaphore(2)
slots.acquire()
slots.acquire()
print("fetching the third", flush=True)
slots.acquire()  # stuck here
