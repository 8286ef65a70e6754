"""Two asyncio actors each await the other's reply first; a ticker coroutine keeps the loop turning."""
import asyncio, os, tempfile, time

TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()


async def ticker():
    while True:
        with open(os.path.join(TMP, "progress.txt"), "w") as f:
            f.write(f"alive {time.time():.0f}\n")
        await asyncio.sleep(1)


async def actor(inbox, outbox, n):
    total = 0
    for _ in range(n):
        total += await inbox.get()
        await outbox.put(total)
    return total


async def main():
    asyncio.create_task(ticker())
    a, b = asyncio.Queue(), asyncio.Queue()
    await a.put(1)
    print(await asyncio.gather(actor(a, b, 1), actor(b, a, 1)), a.qsize(), flush=True)
    a.get_nowait()                               # drain: the token is gone
    print("frozen soon", flush=True)
    print(await asyncio.gather(actor(a, b, 10), actor(b, a, 10)))

asyncio.run(main())
