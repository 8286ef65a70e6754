"""An asyncio program awaits a future that nobody completes."""
# verdict: end
# stuck: asyncio loop
# at: asyncio_never_woken.py:stuck here

import asyncio


async def main():
    answer = asyncio.get_running_loop().create_future()
    print("asking", flush=True)
    await answer


asyncio.run(main())  # stuck here
