"""Four classifiers vote on every picture, all at the same time on one GPU.

    python examples/several_models.py [PICTURES]

Needs torch. The networks are small ones with weights of chance: put your own in their place. On a machine without a GPU
the same script runs, one network after the other, and gpulane says so.
"""

import sys
import time

import torch

import gpulane

CLASSES = 10


def network(width):
    """Any module in eval mode will do."""
    layers = [torch.nn.Conv2d(3, width, 3, stride=2), torch.nn.BatchNorm2d(width), torch.nn.ReLU()]
    for _ in range(6):
        layers += [torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.BatchNorm2d(width), torch.nn.ReLU()]
    return torch.nn.Sequential(
        *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(width, CLASSES)
    )


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    models = [network(width).to(device).eval() for width in (16, 24, 32, 48)]
    pictures = torch.rand(count, 3, 64, 64)  # They may stay on the processor: each batch is copied over.

    begun = time.monotonic()
    with gpulane.concurrent(models, torch.rand(1, 3, 64, 64, device=device), batches=[1, 8, 32]) as fast:
        print(fast)
        print(f"ready in {time.monotonic() - begun:.2f} s")
        begun = time.monotonic()
        # The next batch is on its way while the answers to this one are worked on.
        votes, before = [], None
        for batch in [*pictures.split(50), None]:
            ticket = None if batch is None else fast.submit(batch)
            if before is not None:
                votes.append(sum(answer.softmax(1) for answer in before.result()).argmax(1).cpu())
            before = ticket
        votes = torch.cat(votes)
    print(f"{len(votes)} pictures in {time.monotonic() - begun:.3f} s")
    print("votes for each class:", torch.bincount(votes, minlength=CLASSES).tolist())


if __name__ == "__main__":
    main()
