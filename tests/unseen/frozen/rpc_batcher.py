"""Batch small inference requests: every caller awaits its future."""
import asyncio


class Batcher:
    def __init__(self, size):
        self.size = size
        self.pending = []

    async def infer(self, x):
        fut = asyncio.get_running_loop().create_future()
        self.pending.append((x, fut))
        if len(self.pending) >= self.size:
            batch, self.pending = self.pending, []
            asyncio.create_task(self.run(batch))
        return await fut

    async def run(self, batch):
        await asyncio.sleep(0.05)            # the model
        for x, fut in batch:
            fut.set_result(x * 2)


async def main():
    b = Batcher(size=8)
    print("sending 20 requests")

    out = await asyncio.gather(*(b.infer(i) for i in range(20)))
    print("answers", sum(out))


asyncio.run(main())
