"""What the neighbours of the fourth set share: how long, where, and waiting for a file."""

import os, time
SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))
TMP = os.environ["UNSEEN_TMP"]


def publish(name, text):
    tmp = os.path.join(TMP, name + ".new")
    with open(tmp, "w") as f:
        f.write(str(text))
    os.rename(tmp, os.path.join(TMP, name))


def until_exists(name):
    while not os.path.exists(os.path.join(TMP, name)):
        time.sleep(0.05)


def for_ever():
    while True:
        time.sleep(3600)
