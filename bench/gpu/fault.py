"""Under MPS: `fault = 1` reads where nothing is, after a few seconds; the others compute on."""

import json
import os
import time

import torch

config = json.loads(os.environ["GPULANE_CONFIG"])
x = torch.randn(512, 512, device="cuda")
begun = time.monotonic()
while time.monotonic() - begun < (3 if config["fault"] else 12):
    x = torch.nn.functional.normalize(x @ x)
    torch.cuda.synchronize()
if config["fault"]:
    torch.zeros(4, device="cuda")[torch.tensor([1 << 30], device="cuda")]
    torch.cuda.synchronize()
print("done")
