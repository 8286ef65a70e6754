"""os.fork() while another thread holds the logging lock; the child logs first thing."""
import logging, os, sys, threading, time

logging.basicConfig(stream=sys.stderr, level=logging.INFO)
cfg_lock = threading.Lock()


def reload_config():
    with cfg_lock:
        time.sleep(2.0)


print("reading config", flush=True)
threading.Thread(target=reload_config).start()
time.sleep(0.5)
print("frozen soon", flush=True)
pid = os.fork()
if pid == 0:
    with cfg_lock:          # copied in the locked state, owner thread doesn't exist here
        pass
    os._exit(0)
os.waitpid(pid, 0)
print("eval child finished")
