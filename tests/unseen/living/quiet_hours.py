"""Wait for the end of the quiet hours: an alarm sets the event the main thread waits for."""
import os
import signal
import threading

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))
morning = threading.Event()


def on_alarm(signum, frame):
    morning.set()


def main():
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    morning.wait()
    print("alive")


main()
