"""Ask a job server for the state of our export by long poll (no timeout at all)."""
import http.client
import json
import os
import time

TMP = os.environ["UNSEEN_TMP"]


def server():
    path = os.path.join(TMP, "port")
    while not os.path.exists(path):
        time.sleep(0.05)
    return int(open(path).read())


def main():
    conn = http.client.HTTPConnection("127.0.0.1", server())
    conn.request("GET", "/exports/17?wait=until-done")
    state = json.loads(conn.getresponse().read())
    assert state["state"] == "done", state
    print("alive")


main()
