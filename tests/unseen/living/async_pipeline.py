"""Asyncio pipeline: a stage opened by a timer, and an external tool that takes its time."""
import asyncio
import os

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))


async def external_tool():
    p = await asyncio.create_subprocess_exec("sleep", str(SECONDS * 0.8),
                                             stdout=asyncio.subprocess.PIPE)
    out, _ = await p.communicate()
    return p.returncode


async def main():
    loop = asyncio.get_running_loop()
    window = loop.create_future()
    loop.call_later(SECONDS, window.set_result, "open")
    code, state = await asyncio.gather(external_tool(), window)
    assert (code, state) == (0, "open")
    print("alive")


asyncio.run(main())
