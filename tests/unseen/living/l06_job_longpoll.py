"""Annotation worker: long-polls the coordinator for the next task, with a thread counting memory."""
import os, threading, time
import requests

TMP = os.environ["UNSEEN_TMP"]


def memory_log():
    with open(os.path.join(TMP, "mem.log"), "a") as log:
        while True:
            with open("/proc/self/status") as f:
                rss = [l for l in f if l.startswith("VmRSS")][0]
            log.write("%.0f %s" % (time.time(), rss))
            log.flush()
            time.sleep(2)


def coordinator():
    path = os.path.join(TMP, "port")
    while not os.path.exists(path):
        time.sleep(0.1)
    return "http://127.0.0.1:%s" % open(path).read().strip()


threading.Thread(target=memory_log, daemon=True).start()
session = requests.Session()
session.trust_env = False
r = session.get(coordinator() + "/next-task", params={"wait": "yes"})
r.raise_for_status()
if r.json()["task"] == 17:
    print("alive")
