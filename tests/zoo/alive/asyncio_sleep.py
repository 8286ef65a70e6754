"""An asyncio program that sleeps for longer than the limit: its loop wakes by itself."""

import asyncio
import os

asyncio.run(asyncio.sleep(float(os.environ.get("ZOO_SECONDS", "8"))))
print("alive")
