"""Takes an API token twice from a bucket of one; a Timer thread refills it after the rate window."""
import os, threading

bucket = threading.Lock()
bucket.acquire()
threading.Timer(float(os.environ.get("UNSEEN_SECONDS", "15")), bucket.release).start()
bucket.acquire()
print("alive")
