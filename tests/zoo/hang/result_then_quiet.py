"""Wrote its result and hangs before its exit. It knows nothing of gpulane: `result` names the file."""
# expect: job_lingered
# stuck: model.pt
# result: model.pt

import os
import pathlib
import threading

pathlib.Path(os.environ["GPULANE_OUT"], "model.pt").write_text("weights")
print("trained", flush=True)
threading.Event().wait()
