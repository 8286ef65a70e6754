"""Outside of the job `asyncio_slow_answer`: the process it waits for."""

import os, socket, time

tmp = os.environ["UNSEEN_TMP"]
s = socket.socket(socket.AF_UNIX)
s.bind(os.path.join(tmp, "score.part"))
s.listen(5)
os.rename(os.path.join(tmp, "score.part"), os.path.join(tmp, "score.sock"))
while True:
    c, _ = s.accept()
    c.recv(100)
    end, x = time.time() + float(os.environ.get("UNSEEN_SECONDS", "15")), 0
    while time.time() < end:
        x += sum(i * i for i in range(20000))
        time.sleep(0.1)
    c.sendall(b"score %d\n" % (x % 100))
    c.close()
