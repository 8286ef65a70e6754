"""ETL: one thread parses the CSV, the main thread inserts in batches."""
import csv
import io
import json
import os
import queue
import threading
import time

TMP = os.environ.get("UNSEEN_TMP", "/tmp")
rows = queue.Queue(maxsize=100)
done = {"rows": 0}

RAW = "id,price\n" + "".join("%d,%d.50\n" % (i, i) for i in range(30)) + "31,n/a\n32,8.00\n"


def parse():
    for rec in csv.DictReader(io.StringIO(RAW)):
        rows.put((int(rec["id"]), float(rec["price"])))
    rows.put(None)


def heartbeat():
    path = os.path.join(TMP, "progress.json")
    while True:
        with open(path + ".new", "w") as f:
            json.dump({"time": time.time(), "rows": done["rows"]}, f)
        os.replace(path + ".new", path)
        time.sleep(1)


def main():
    threading.Thread(target=heartbeat, daemon=True, name="heartbeat").start()
    threading.Thread(target=parse, daemon=True, name="parser").start()
    total = 0.0
    while True:
        row = rows.get()
        if row is None:
            break
        total += row[1]
        done["rows"] += 1
    print("inserted", done["rows"], "rows, total", total)


main()
