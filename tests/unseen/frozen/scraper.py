"""Scrape product pages; a side thread keeps a log of our own resource use."""
import json
import os
import threading
import time
import urllib.request

TMP = os.environ.get("UNSEEN_TMP", "/tmp")
state = {"pages": 0}


def usage_log():
    """Every 1.5 s a line with cpu, memory and pages so far."""
    with open(os.path.join(TMP, "usage.jsonl"), "a") as out:
        while True:
            with open("/proc/self/stat") as f:
                cols = f.read().rsplit(")", 1)[1].split()
            out.write(json.dumps({"t": time.time(), "utime": int(cols[11]),
                                  "rss": int(cols[21]), "pages": state["pages"]}) + "\n")
            out.flush()
            time.sleep(1.5)


def shop_address():
    path = os.path.join(TMP, "port")
    while not os.path.exists(path):
        time.sleep(0.05)
    return "http://127.0.0.1:%d" % int(open(path).read())


def main():
    base = shop_address()
    threading.Thread(target=usage_log, daemon=True).start()
    sizes = []
    for page in range(1, 6):
        with urllib.request.urlopen("%s/products?page=%d" % (base, page)) as r:
            sizes.append(len(r.read()))
        state["pages"] += 1
    print("scraped", len(sizes), "pages,", sum(sizes), "bytes")


main()
