"""A watcher gives the learner a grace period, then carries on without its signal."""
import os
import threading

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))
improved = threading.Condition()
state = {"best": None, "stopped": False}


def patience():
    with improved:
        if not improved.wait_for(lambda: state["best"] is not None, timeout=SECONDS):
            state["stopped"] = True


def main():
    t = threading.Thread(target=patience, name="patience")
    t.start()
    t.join()
    assert state["stopped"]
    print("alive")


main()
