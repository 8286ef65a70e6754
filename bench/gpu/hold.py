"""Holds GPU memory in this process and in a child of its own session, for ever."""

import os
import subprocess
import sys
import time

if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
import torch  # noqa: E402

block = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
with open(os.path.join(os.environ["GPULANE_OUT"], f"ready-{os.getpid()}"), "w"):
    pass
time.sleep(3600)
