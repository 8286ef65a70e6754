"""Holds memory of a GPU and waits for a lock that nobody gives back."""

import threading

import torch

held = torch.ones(1 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
lock = threading.Lock()
lock.acquire()
lock.acquire()  # mark: lock
