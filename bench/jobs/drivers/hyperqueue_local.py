"""HyperQueue with a server and one worker of two cores in this process; timed from submit to the last task's end."""

import json
import sys
import time
from pathlib import Path

from hyperqueue.cluster import LocalCluster, WorkerConfig
from hyperqueue.job import Job

count, folder, command = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]


def tasks(number: int, argv: list) -> Job:
    job = Job(default_workdir=folder)
    for _ in range(number):
        job.program(argv, stdout=None, stderr=None)
    return job


cluster = LocalCluster(server_dir=str(folder / "server"))
cluster.start_worker(WorkerConfig(cores=2))
client = cluster.client()
client.wait_for_jobs([client.submit(tasks(1, ["/bin/true"]))])
whole = tasks(count, command)
begin = time.monotonic()
client.wait_for_jobs([client.submit(whole)])
seconds = time.monotonic() - begin
print(json.dumps({"seconds": seconds}), flush=True)
cluster.stop()
