"""Ray with two CPUs; each task runs the job as a subprocess. Timed from submit to the last result, workers warm."""

import json
import os
import subprocess
import sys
import time

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Without GPUs asked for, Ray keeps CUDA_VISIBLE_DEVICES as it is; the variable only silences a warning.
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray  # noqa: E402

count, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]


@ray.remote(num_cpus=1)
def job(argv: list) -> int:
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ray.get([job.remote(["/bin/sleep", "0.05"]) for _ in range(8)])
begin = time.monotonic()
codes = ray.get([job.remote(command) for _ in range(count)])
seconds = time.monotonic() - begin
print(json.dumps({"seconds": seconds}), flush=True)
ray.shutdown()
sys.exit(any(codes))
