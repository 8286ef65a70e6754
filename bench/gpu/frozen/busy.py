"""Silent for long, with a busy GPU and an idle CPU: one long kernel after another, awaited without spinning."""

import sys
import time

import torch

until = time.monotonic() + float(sys.argv[1])
start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True, blocking=True)
start.record()
torch.cuda._sleep(1_000_000_000)
end.record()
end.synchronize()
second = int(1_000_000_000 * 1000 / start.elapsed_time(end))
while time.monotonic() < until:
    done = torch.cuda.Event(blocking=True)
    torch.cuda._sleep(4 * second)
    done.record()
    done.synchronize()
