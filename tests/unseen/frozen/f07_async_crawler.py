"""Small asyncio crawler with a work queue."""
import asyncio


async def fetch(url):
    await asyncio.sleep(0.05)
    if url.endswith("13"):
        raise ConnectionResetError(url)
    return "<html>%s</html>" % url


async def worker(todo, pages):
    while True:
        url = await todo.get()
        try:
            pages[url] = await fetch(url)
        except ConnectionResetError:
            continue                       # skip broken pages
        todo.task_done()


async def main():
    todo, pages = asyncio.Queue(), {}
    for i in range(40):
        todo.put_nowait("http://example.test/page/%d" % i)
    workers = [asyncio.create_task(worker(todo, pages)) for _ in range(4)]
    await todo.join()
    for w in workers:
        w.cancel()
    print("crawled", len(pages))


asyncio.run(main())
