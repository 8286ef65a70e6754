"""The asyncio consumers die of a bad record without task_done(), so queue.join() never returns."""
import asyncio, json, os, time


async def beat():
    path = os.path.join(os.environ["UNSEEN_TMP"], "heartbeat")
    while True:
        with open(path, "w") as f:
            f.write(str(time.time()))
        await asyncio.sleep(1)


async def consumer(q, out):
    while True:
        line = await q.get()
        rec = json.loads(line)
        await asyncio.sleep(0.02)
        out.append(rec["x"] * 2)
        q.task_done()


async def main():
    q, out = asyncio.Queue(), []
    hb = asyncio.create_task(beat())
    tasks = [asyncio.create_task(consumer(q, out)) for _ in range(4)]
    for i in range(60):
        q.put_nowait('{"x": %d' % i if i % 7 == 6 else '{"x": %d}' % i)
    print("queued", q.qsize(), flush=True)
    await q.join()
    for t in tasks + [hb]:
        t.cancel()
    print("sum", sum(out))


asyncio.run(main())
