"""An asyncio client waits without a time-out for a scoring service that computes and then answers."""
import asyncio, os


async def main():
    path = os.path.join(os.environ["UNSEEN_TMP"], "score.sock")
    while not os.path.exists(path):
        await asyncio.sleep(0.05)
    r, w = await asyncio.open_unix_connection(path)
    w.write(b"score checkpoint-3\n")
    await w.drain()
    line = await r.readline()
    assert line.startswith(b"score ")
    print("alive")


asyncio.run(main())
