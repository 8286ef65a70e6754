"""RPC client in asyncio: reply dispatcher drops a reply with an unknown id, the future stays pending."""
import asyncio


class Rpc:
    def __init__(self):
        self.pending, self.seq, self.wire = {}, 0, asyncio.Queue()

    async def server(self):
        while True:
            rid, x = await self.wire.get()
            await asyncio.sleep(0.05)
            rid = rid % 3                       # id is truncated on the way back
            fut = self.pending.pop(rid, None)
            if fut:
                fut.set_result(x * x)

    async def call(self, x):
        rid, self.seq = self.seq, self.seq + 1
        fut = self.pending[rid] = asyncio.get_running_loop().create_future()
        await self.wire.put((rid, x))
        return await fut


async def main():
    rpc = Rpc()
    t = asyncio.create_task(rpc.server())
    for i in range(10):
        if i == 3:
            print("frozen soon", flush=True)
        print(await rpc.call(i), flush=True)

asyncio.run(main())
