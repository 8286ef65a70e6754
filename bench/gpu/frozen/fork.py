"""Uses CUDA and threads, then forks, as `multiprocessing` does by default on Linux before Python 3.14: the child freezes."""

import multiprocessing
import os

import torch


def work() -> None:
    # The parent's pool of OpenMP threads does not exist here, but is waited for.
    a = torch.ones(2000, 2000)
    print(float((a @ a).sum()), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(4)
    held = torch.ones(1 << 28, dtype=torch.uint8, device="cuda")
    a = torch.ones(2000, 2000)
    print("parent", float((a @ a).sum()), held.numel(), flush=True)
    with open(os.environ["GPULANE_OUT"] + "/frozen", "w"):
        pass
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()  # mark: join
