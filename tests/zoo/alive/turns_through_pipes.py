"""Two processes hand a turn to each other through pipes, without timeouts and with hardly any work."""

import os
import time

END = time.monotonic() + float(os.environ.get("ZOO_SECONDS", "8"))
ping, pong = os.pipe(), os.pipe()
child = os.fork()
inbox, outbox = (ping[0], pong[1]) if child == 0 else (pong[0], ping[1])
os.close(ping[1] if child == 0 else ping[0])
os.close(pong[0] if child == 0 else pong[1])
if child:
    os.write(outbox, b"!")
while time.monotonic() < END:
    if not os.read(inbox, 1):
        break
    time.sleep(0.3)
    try:
        os.write(outbox, b"!")
    except BrokenPipeError:
        break
os.close(outbox)
if child == 0:
    os._exit(0)
os.close(inbox)
os.waitpid(child, 0)
print("alive")
