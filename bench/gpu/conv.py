"""A small training for `standbys.py`: torch is imported with the file, CUDA is touched in `main` alone."""

import hashlib
import json
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
DRY = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
"""Without a GPU only the script around this is tried: no torch."""
if not DRY:
    import torch


def train(config):
    """Trains on noise; when the first kernel had run, how fast it went, and what the weights are."""
    torch.manual_seed(config["seed"])
    torch.use_deterministic_algorithms(True)
    images = torch.randn(256, 3, 32, 32, device="cuda")
    torch.cuda.synchronize()
    kernel = time.time()
    labels = images.mean((1, 2, 3)).gt(0).long()
    layers = [torch.nn.Conv2d(3, 32, 3, 2), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3, 2), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(64 * 49, 2)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    begun = time.time()
    for _ in range(config["steps"]):
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    rate = config["steps"] / (time.time() - begun)
    bits = b"".join(one.detach().cpu().numpy().tobytes() for one in net.parameters())
    return {"kernel": kernel, "rate": rate, "weights": hashlib.sha256(bits).hexdigest()}


def pretend(config):
    """The same without torch."""
    kernel = time.time()
    state = config["seed"]
    for _ in range(config["steps"]):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    time.sleep(0.1)
    return {"kernel": kernel, "rate": 0.0, "weights": str(state)}


def main(config, out):
    """One job."""
    entered = time.time()
    noted = pretend(config) if config["dry"] else train(config)
    noted.update(entered=entered, done=time.time())
    (out / "notes.json").write_text(json.dumps(noted))


if __name__ == "__main__":  # As a command of its own: what a job is without gpulane's help.
    from pathlib import Path

    main(json.loads(os.environ["GPULANE_CONFIG"]), Path(os.environ["GPULANE_OUT"]))
