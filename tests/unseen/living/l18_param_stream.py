"""asyncio worker that waits for the parameter server to publish the next version."""
import asyncio, os

TMP = os.environ["UNSEEN_TMP"]


async def main():
    path = os.path.join(TMP, "port")
    while not os.path.exists(path):
        await asyncio.sleep(0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(open(path).read()))
    writer.write(b"subscribe version>3\n")
    await writer.drain()
    line = await reader.readline()
    writer.close()
    if line.startswith(b"version"):
        print("alive")


asyncio.run(main())
