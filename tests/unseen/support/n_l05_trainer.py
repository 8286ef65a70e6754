"""Writes the checkpoint that l05 polls for."""

import json
from common import *
time.sleep(SECONDS)
publish("step1000.ckpt", json.dumps({"step": 1000}))
