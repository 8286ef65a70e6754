"""asyncio: waits for a worker registration with wait_for, then backs off; two phases."""
import asyncio, os
S = float(os.environ.get("UNSEEN_SECONDS", 15))


async def main():
    ev = asyncio.Event()
    print("registry open", flush=True)
    try:
        await asyncio.wait_for(ev.wait(), S / 2)
    except asyncio.TimeoutError:
        pass
    await asyncio.gather(*(asyncio.sleep(S / 2, i) for i in range(5)))
    print("alive")

asyncio.run(main())
