"""Awaits an event that nobody sets, on an event loop of which another task beats: that task might be the one that sets it."""
# verdict: tell
# stuck: asyncio loop | asks again and again
# at: heartbeat_on_event_loop.py:stuck here

import asyncio


async def beat():
    while True:
        with open("beat.txt", "w") as file:
            file.write("alive")
        await asyncio.sleep(0.3)


async def main():
    heart = asyncio.create_task(beat())
    print("waiting for a batch", flush=True)
    await asyncio.Event().wait()
    heart.cancel()


asyncio.run(main())  # stuck here
