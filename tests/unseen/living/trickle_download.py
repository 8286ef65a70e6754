"""Downloads a file by HTTP from a server that sends some bytes every 2 s."""
import os, time, urllib.request

port_file = os.path.join(os.environ["UNSEEN_TMP"], "port")
while not os.path.exists(port_file):
    time.sleep(0.05)
with urllib.request.urlopen("http://127.0.0.1:%s/weights.bin" % open(port_file).read()) as r:
    want = int(r.headers["Content-Length"])
    data = r.read()
if len(data) != want:
    raise SystemExit(1)
print("alive")
