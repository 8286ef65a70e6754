"""What the torture's jobs do; copied beside each plan, and run as a program (`command`) or imported (`entry`).

Each job finds its part in `acts.json`, notes in a log outside the run directory when it began and how it was about to
end, and holds a lock on its own name and on each of its GPUs, so that two of one kind at once would show. Its output
carries checksums.
"""

import fcntl
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Signals whose disposition is Python's own (PIPE, XFSZ), glibc's (32, 33), or may come from whoever started gpulane.
EXCUSED = {1, 2, 3, 13, 25, 32, 33}


class Play:
    """One attempt of one job."""

    def __init__(self):
        # What limits gpulane's files for a while is not to limit the job's notes.
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        self.job = os.environ["GPULANE_JOB"]
        self.attempt = int(os.environ["GPULANE_ATTEMPT"])
        self.out = os.environ["GPULANE_OUT"]
        with open(os.path.join(HERE, "acts.json")) as file:
            self.part = json.load(file)["jobs"][self.job]
        with open(os.path.join(HERE, "tag")) as file:
            self.tag = file.read()
        self.name = self.job.replace("/", "@")
        self.token = f"{self.job}#{self.attempt}#{os.getpid()}#{time.time_ns()}"
        self.kept = []

    def note(self, at, **more):
        more.update(
            at=at, job=self.job, attempt=self.attempt, pid=os.getpid(), token=self.token, ns=time.monotonic_ns()
        )
        line = (json.dumps(more) + "\n").encode()
        handle = os.open(os.path.join(HERE, "log", self.name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(handle, line)
        os.close(handle)

    def hold(self, kind, name):
        """A lock that only one living process may have."""
        handle = os.open(os.path.join(HERE, "locks", f"{kind}-{name}"), os.O_RDWR | os.O_CREAT, 0o666)
        self.kept.append(handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.note("twice", what=f"{kind} {name}")

    def begin(self):
        masks = {}
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith(("SigBlk", "SigIgn")):
                    masks[line[:6]] = int(line.split()[1], 16)
        ignored = [n for n in range(1, 65) if masks["SigIgn"] >> (n - 1) & 1 and n not in EXCUSED]
        blocked = [n for n in range(1, 65) if masks["SigBlk"] >> (n - 1) & 1]
        handles = sorted(int(name) for name in os.listdir("/proc/self/fd"))
        self.note("start", ignored=ignored, blocked=blocked, lane=os.environ.get("GPULANE_LANE"), handles=handles[-1])
        self.hold("job", self.name)
        if self.part.get("alone"):
            for gpu in filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")):
                self.hold("gpu", gpu)

    def claim(self):
        """Memory on each of its GPUs, where those are fake."""
        folder = os.environ.get("FAKE_VRAM")
        gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        if folder and gpus:
            with open(os.path.join(folder, str(os.getpid())), "w") as file:
                file.write("".join(f"{gpu} 2GiB\n" for gpu in gpus))

    def earlier(self, at):
        """How often this job has noted this before."""
        try:
            with open(os.path.join(HERE, "log", self.name)) as file:
                return sum(1 for line in file if f'"at": "{at}"' in line)
        except OSError:
            return 0

    def write(self):
        """Everything the output must hold, with checksums and the token of this attempt in each file."""
        files = {}
        for number, size in enumerate(self.part.get("files", [100])):
            folder = self.out
            for _ in range(self.part.get("deep", 0) if number == 0 else 0):
                # Never the folder for the output itself: where it is gone, the job has nowhere to write.
                folder = os.path.join(folder, "d")
                os.mkdir(folder)
            name = os.path.join(folder, f"f{number}")
            head = self.token.encode() + b"\n"
            block = hashlib.sha256(self.token.encode() + bytes([number])).digest()
            data = head + (block * (size // 32 + 1))[:size]
            with open(name, "wb") as file:
                half = len(data) // 2
                file.write(data[:half])
                file.flush()
                time.sleep(self.part.get("slowly", 0))
                file.write(data[half:])
            files[os.path.relpath(name, self.out)] = hashlib.sha256(data).hexdigest()
        source = None
        if self.part.get("input"):
            with open(os.path.join(os.environ["GPULANE_INPUT"], "whole.json")) as file:
                source = json.load(file)["token"]
        with open(os.path.join(self.out, "whole.json"), "w") as file:
            json.dump({"token": self.token, "files": files, "source": source}, file)

    def leave_behind(self, how):
        """Starts what outlives this process unless somebody ends it."""
        word = f"torture-{self.tag}"
        sleep = [
            sys.executable,
            "-S",
            "-c",
            "import sys,time,signal\nif sys.argv[2]=='deaf': signal.signal(15,signal.SIG_IGN)\ntime.sleep(300)",
            word,
        ]
        if how == "child":
            subprocess.Popen([*sleep, "-"])
        elif how == "deaf":
            subprocess.Popen([*sleep, "deaf"])
        elif how == "daemon":
            subprocess.Popen([*sleep, "-"], start_new_session=True)
        elif how == "bare":
            subprocess.Popen([*sleep, "-"], start_new_session=True, env={})
        elif how == "twice" and os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for handle in self.kept:
                    os.close(handle)
                os.execve(sys.executable, [*sleep, "-"], {})
            os._exit(0)

    def babble(self):
        for size in self.part.get("prints", []):
            stream = 1 + size % 2
            os.write(stream, (bytes(range(1, 256)) * (size // 255 + 1))[:size])

    def act(self):
        part = self.part
        self.begin()
        self.claim()
        if part.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for how in part.get("leaves", []):
            self.leave_behind(how)
        self.babble()
        time.sleep(part.get("seconds", 0))
        if "quiet" in part:
            # By the clock, for longer than `hang` allows: the job is told of, and left alone.
            time.sleep(part["quiet"])
            self.note("woke")
        self.write()
        failures = part.get("failures", 0)
        if failures and self.earlier("failing") < failures:
            self.note("failing", how=part["how"])
            self.fail(part["how"])
        end = part.get("end", "exit")
        self.note("ending", how=end)
        if end == "done":
            with open(os.environ["GPULANE_DONE"], "w"):
                pass
            time.sleep(300)
        if end == "result":
            with open(os.path.join(self.out, "result.txt"), "w") as file:
                file.write("done")
            threading.Event().wait()
        if end == "handles":
            self.kept.append(os.open(os.path.join(self.out, "f0"), os.O_RDONLY))
            os._exit(0)

    def fail(self, how):
        if how == "exit":
            os._exit(7)
        elif how == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif how == "abort":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "freeze":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        elif how == "outside":
            # Somebody might write into it one day.
            pipe = os.path.join(HERE, "locks", f"pipe-{self.name}")
            if not os.path.exists(pipe):
                os.mkfifo(pipe)
            os.open(pipe, os.O_RDONLY)
        time.sleep(300)


def main(config=None, out=None):
    """The entry, and the program."""
    play = Play()
    try:
        play.act()
    except OSError as error:
        # A full disk, say: no part of the story, and no fault of gpulane's.
        play.note("trouble", what=str(error))
        os._exit(8)


if __name__ == "__main__":
    main()
