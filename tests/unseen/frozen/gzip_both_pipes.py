"""Feeds gzip through its stdin and reads its stdout only afterwards: both pipes fill up."""
import os, subprocess, zlib

data = os.urandom(3 << 20)
print("crc", zlib.crc32(data), flush=True)
p = subprocess.Popen(["gzip", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.stdin.write(data)
p.stdin.close()
out = p.stdout.read()
p.wait()
print("compressed", len(out))
