"""A small real training on the GPU gpulane gave us; says which one it sees and writes its weights."""

import json
import os
import time

start = time.monotonic()
import torch  # noqa: E402

config = json.loads(os.environ["GPULANE_CONFIG"])
visible = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
assert torch.cuda.device_count() == len(visible), (torch.cuda.device_count(), visible)
seen = [str(torch.cuda.get_device_properties(index).uuid) for index in range(len(visible))]
assert [f"GPU-{uuid}" for uuid in seen] == visible, (seen, visible)
assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])

torch.manual_seed(config["seed"])
x = torch.randn(8192, 256, device="cuda")
y = (x[:, :128].sum(1) > x[:, 128:].sum(1)).long()
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 2)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
ready = time.monotonic()
for step in range(config.get("steps", 1500)):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 500 == 0:
        print(f"step {step} loss {loss.item():.4f}")
torch.save(model.state_dict(), os.path.join(os.environ["GPULANE_OUT"], "model.pt"))
print(json.dumps({"loss": loss.item(), "import_s": ready - start, "train_s": time.monotonic() - ready}))
