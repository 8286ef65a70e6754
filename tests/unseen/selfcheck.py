#!/usr/bin/env python3
"""selfcheck.py [name-part ...]: run the programs, two at a time. Living: exit 0 with 'alive', and not
sooner than UNSEEN_SECONDS (4). Frozen: says 'frozen soon', then still there 5 s later. Kills only the
sessions it made."""
import concurrent.futures as cf, json, os, shutil, signal, subprocess, sys, tempfile, time

B = os.path.dirname(os.path.abspath(__file__))
S = float(os.environ.get("UNSEEN_SECONDS", 4))
HOLD = float(os.environ.get("HOLD", 5))
GRACE = 60                                   # the machine is busy: start-up and compiling


def sid_pids(sid):
    r = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            st = open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(st[3]) == sid and st[0] != "Z":
            r.append(int(p))
    return r


def end(p):
    for _ in range(3):
        for pid in sid_pids(p.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        p.wait()
        if not sid_pids(p.pid):
            return []
        time.sleep(0.2)
    return sid_pids(p.pid)


def check(o):
    tmp = tempfile.mkdtemp(prefix="unseen_")
    env = dict(os.environ, UNSEEN_TMP=tmp, UNSEEN_SECONDS=f"{S:g}")
    kw = dict(env=env, stdin=subprocess.DEVNULL, start_new_session=True, cwd=tmp)
    nb = o["neighbour"] and subprocess.Popen(o["neighbour"], stdout=subprocess.DEVNULL, stderr=open(tmp + "/nb.err", "w"), **kw)
    outp, errp = tmp + "/stdout", tmp + "/stderr"
    t0 = time.monotonic()
    p = subprocess.Popen(o["argv"], stdout=open(outp, "w"), stderr=open(errp, "w"), **kw)
    read = lambda: open(outp).read()
    bad = ""
    try:
        if o["kind"] == "living":
            try:
                rc = p.wait(S + GRACE)
                dt = time.monotonic() - t0
                if rc or not read().endswith("alive\n"):
                    bad = f"rc {rc}, out {read()!r}, err {open(errp).read()[-300:]!r}"
                elif dt < S - 0.1:
                    bad = f"too early: {dt:.1f}s"
                elif sid_pids(p.pid) and (time.sleep(2) or sid_pids(p.pid)):     # helpers get a moment to end
                    bad = "left processes " + str(sid_pids(p.pid))
            except subprocess.TimeoutExpired:
                bad = "didn't end; out " + repr(read())
        else:
            while "frozen soon" not in read() and p.poll() is None and time.monotonic() - t0 < GRACE:
                time.sleep(0.2)
            time.sleep(HOLD + (2 if o["heartbeat"] else 0))
            if p.poll() is not None or not read().endswith("frozen soon\n"):
                bad = f"rc {p.poll()}, out {read()!r}, err {open(errp).read()[-300:]!r}"
            else:
                def ticks():
                    t = 0
                    for q in sid_pids(p.pid):
                        s = open(f"/proc/{q}/stat").read().rsplit(")", 1)[1].split()
                        t += int(s[11]) + int(s[12])
                    return t
                a = ticks(); time.sleep(1); b = ticks()
                if os.environ.get("SHOW"):              # where every thread is
                    for q in sid_pids(p.pid):
                        c = open(f"/proc/{q}/comm").read().strip()
                        w = [open(f"/proc/{q}/task/{t}/{'wchan'}").read() + ":" + " ".join(open(f"/proc/{q}/task/{t}/syscall").read().split()[:2])
                             for t in os.listdir(f"/proc/{q}/task")]
                        print("      ", o["name"], q, c, sorted(w), "cpu", b - a, flush=True)
                if b - a > 5:
                    bad = f"uses CPU: {b - a} ticks/s"
    finally:
        left = end(p)
        if nb:
            end(nb)
        if left:
            bad += f" could not end {left}"
        shutil.rmtree(tmp, ignore_errors=True)
    print(f"{'ok ' if not bad else 'BAD'} {o['kind']:6} {o['name']} {time.monotonic() - t0:.0f}s {bad}", flush=True)
    return o["name"], bad


if __name__ == "__main__":
    todo = [o for o in json.load(open(B + "/manifest.json"))
            if not sys.argv[1:] or any(a in o["name"] for a in sys.argv[1:])]
    with cf.ThreadPoolExecutor(2) as ex:
        res = list(ex.map(check, todo))
    bad = [n for n, b in res if b]
    print(f"{len(res) - len(bad)} ok, {len(bad)} bad: {bad}")
    sys.exit(bool(bad))
