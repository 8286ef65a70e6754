"""recvfrom() without timeout for the coordinator's datagram; heartbeat thread logs meanwhile."""
import logging, os, socket, threading, time
TMP = os.environ["UNSEEN_TMP"]
logging.basicConfig(filename=TMP + "/node.log", level=logging.INFO)


def hb():
    while True:
        logging.info("waiting, load %s", open("/proc/loadavg").read().split()[0])
        time.sleep(2)


threading.Thread(target=hb, daemon=True).start()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 0))
with open(TMP + "/uport.tmp", "w") as f:
    f.write(str(s.getsockname()[1]))
os.rename(TMP + "/uport.tmp", TMP + "/uport")
print("waiting for coordinator", flush=True)
assert s.recvfrom(100)[0] == b"GO"
print("alive")
