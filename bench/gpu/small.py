"""A small training whose steps are too short to fill a GPU: what many people train by the dozen."""

import json
import os
import time

start = time.monotonic()
import torch  # noqa: E402

config = json.loads(os.environ["GPULANE_CONFIG"])
torch.manual_seed(config["seed"])
x = torch.randn(config.get("batch", 512), 256, device="cuda")
y = (x[:, :128].sum(1) > x[:, 128:].sum(1)).long()
layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 2)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
ready = time.monotonic()
for step in range(config["steps"]):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 1000 == 0:
        print(f"step {step} loss {loss.item():.4f}")
torch.save(model.state_dict(), os.path.join(os.environ["GPULANE_OUT"], "model.pt"))
print(json.dumps({"import_s": ready - start, "train_s": time.monotonic() - ready}))
