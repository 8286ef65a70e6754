"""ThreadPoolExecutor: results arrive as the slow threads wake up; main blocks in as_completed."""
import concurrent.futures as cf, os, time
S = float(os.environ.get("UNSEEN_SECONDS", 15))


def upload(i):
    time.sleep(S * (i + 1) / 3)
    return i


with cf.ThreadPoolExecutor(3) as ex:
    print("uploading shards", flush=True)
    got = [f.result() for f in cf.as_completed([ex.submit(upload, i) for i in range(3)])]
assert got == [0, 1, 2]
print("alive")
