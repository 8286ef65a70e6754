"""Takes GPU memory in steps up to `gib`, then holds it for `seconds`. Fails as torch does when there is no more."""

import json
import os
import time

import torch

config = json.loads(os.environ["GPULANE_CONFIG"])
blocks = []
for _ in range(config["gib"] * 2):
    blocks.append(torch.empty(1 << 29, dtype=torch.uint8, device="cuda"))
    blocks[-1].fill_(1)
    torch.cuda.synchronize()
    time.sleep(0.02)
time.sleep(config.get("seconds", 3))
print(sum(int(block[0].item()) for block in blocks))
