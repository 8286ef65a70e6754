"""Daily aggregate: starts when the upstream export has left its _SUCCESS marker."""
import os
import time

TMP = os.environ.get("UNSEEN_TMP", "/tmp")
EXPORT = os.path.join(TMP, "export", "day=2024-03-01")


def write_part(n):
    with open(os.path.join(EXPORT, "part-%05d.csv" % n), "w") as f:
        for i in range(10):
            f.write("%d,%d\n" % (n, i))


def upstream():
    os.makedirs(EXPORT, exist_ok=True)
    for n in range(3):
        write_part(n)
    # an older version of this job used to touch _SUCCESS here


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.5)


def main():
    upstream()
    print("waiting for the export", flush=True)
    wait_for(os.path.join(EXPORT, "_SUCCESS"))
    total = 0
    for name in sorted(os.listdir(EXPORT)):
        if name.endswith(".csv"):
            with open(os.path.join(EXPORT, name)) as f:
                total += sum(int(x.split(",")[1]) for x in f)
    print("total", total)


main()
