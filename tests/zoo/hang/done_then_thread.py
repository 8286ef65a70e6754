"""Finished, and said so; then Python waits at the exit for a thread that never ends."""
# expect: job_lingered
# stuck: gpulane.done()

import threading

import gpulane

threading.Thread(target=threading.Event().wait, name="monitor").start()
(gpulane.out() / "model.pt").write_text("weights")
print("trained", flush=True)
gpulane.done()
