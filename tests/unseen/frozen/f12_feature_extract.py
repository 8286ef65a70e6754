"""Feature extraction with a process pool; one worker meets the OOM killer."""
import multiprocessing as mp, os, signal, time


def extract(i):
    time.sleep(0.05)
    if i == 7:
        os.kill(os.getpid(), signal.SIGKILL)      # what the kernel's OOM killer does
    return i, sum(range(i * 100))


def main():
    with mp.Pool(3) as pool:
        features = pool.map(extract, range(24), chunksize=1)
    print("extracted", len(features))


if __name__ == "__main__":
    main()
