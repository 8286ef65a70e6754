"""What many people write by hand: a pool of two threads, each waiting for a subprocess."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

count, command = int(sys.argv[1]), sys.argv[3:]


def job(_: int) -> int:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode


with ThreadPoolExecutor(2) as pool:
    sys.exit(any(pool.map(job, range(count))))
