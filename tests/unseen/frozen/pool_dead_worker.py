"""multiprocessing.Pool: one worker segfaults on a corrupt sample, its result never comes."""
import multiprocessing as mp, os, signal, time


def decode(i):
    if i == 5:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGSEGV)
    return i * 2


if __name__ == "__main__":
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with mp.get_context("fork").Pool(3) as pool:
        print(sum(pool.map(decode, range(4))), flush=True)
        print("frozen soon", flush=True)
        out = pool.map(decode, range(12), chunksize=1)
        print(sum(out))
