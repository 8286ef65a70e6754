"""Maps a file as code, makes it odd in the way that its argument names, and waits in that code for a semaphore."""

import ctypes
import os
import select
import struct
import sys
import tempfile

c = ctypes.CDLL(None, use_errno=True)
c.mmap.restype = ctypes.c_void_p
c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
PAGE = 4096
# Calls the first argument with the second, the third on the stack:
# push rdx; mov rax, rdi; mov rdi, rsi; call rax; pop rdx; ret
CODE = bytes.fromhex("52 4889f8 4889f7 ffd0 5a c3")


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")


def alone():
    """Mounts of this process from here on are its own."""
    checked(c.unshare(0x20000))
    checked(c.mount(b"none", b"/", None, 0x44000, None))


def program(count):
    """A file with its code in the first page, and after that as many symbols as wanted, all of one name."""
    names = b"\0sem_wait\0"
    symbols = b"".join(struct.pack("<IBBHQQ", 1, 2, 0, 1, 1 << 20 | at << 11, 16) for at in range(count))
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 40, 1 << 40, PAGE)
    begin = PAGE + 3 * 64
    heads = bytes(64)
    heads += struct.pack("<IIQQQQIIQQ", 0, 11, 2, 0, begin, len(symbols), 2, 0, 8, 24)
    heads += struct.pack("<IIQQQQIIQQ", 0, 3, 2, 0, begin + len(symbols), len(names), 0, 0, 1, 0)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, PAGE, 0, 64, 56, 1, 64, 3, 2)
    first = (head + segment).ljust(256, b"\0") + CODE
    return first.ljust(PAGE, b"\0") + heads + symbols + names


def mapped(path):
    fd = os.open(path, os.O_RDONLY)
    place = c.mmap(None, PAGE, 5, 2, fd, 0)
    assert place not in (None, ctypes.c_void_p(-1).value), path
    os.close(fd)
    return place


def served(folder, contents):
    """A file of a disk that answers until it was mapped, and never again: FUSE, by hand."""
    alone()
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fuse
    checked(c.mount(b"odd", os.fsencode(folder), b"fuse.odd", 0, options))
    stop, stopped = os.pipe()
    if os.fork() == 0:
        c.prctl(1, 9)
        os.close(stopped)
        serve(fuse, contents, stop)
    os.close(stop)
    path = os.path.join(folder, "x.so")
    place = mapped(path)
    ctypes.string_at(place, PAGE)
    os.close(stopped)
    return place


def serve(fuse, contents, stop):
    def attributes(node):
        mode, size = (0o40755, 0) if node == 1 else (0o100755, len(contents))
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    while True:
        ready, _, _ = select.select([fuse, stop], [], [])
        if stop in ready:
            # From here on nobody is answered.
            os.read(os.pipe()[0], 1)
        request = os.read(fuse, 1 << 20)
        _, what, unique, node = struct.unpack_from("<IIQQ", request)
        body = request[40:]
        if what == 26:
            answer = struct.pack("<IIIIHHIIHH", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0) + bytes(32)
        elif what == 1:
            answer = struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + attributes(2)
        elif what == 3:
            answer = struct.pack("<QII", 0, 0, 0) + attributes(node)
        elif what == 14:
            answer = struct.pack("<QII", 1, 0, 0)
        elif what == 15:
            _, offset, size = struct.unpack_from("<QQI", body)
            answer = contents[offset : offset + size]
        elif what in (2, 36, 42):
            continue
        else:
            os.write(fuse, struct.pack("<IiQ", 16, -38, unique))
            continue
        os.write(fuse, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)


kind = sys.argv[1]
folder = tempfile.mkdtemp()
path = os.path.join(folder, "x.so")
if kind == "dead":
    place = served(folder, program(1))
else:
    with open(path, "wb") as file:
        file.write(program(100_000 if kind == "symbols" else 1))
    place = mapped(path)
if kind == "pipe":
    os.unlink(path)
    os.mkfifo(path + " (deleted)")
if kind == "mount":
    with open("/proc/self/maps") as maps:
        libc = next(line.split()[-1] for line in maps if "/libc.so" in line)
    alone()
    checked(c.mount(b"none", os.fsencode(os.path.dirname(libc)), b"tmpfs", 0, None))
semaphore = ctypes.create_string_buffer(64)
c.sem_init(semaphore, 0, 0)
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(place + 256)
print("waits", flush=True)
# The very beginning of the code on the stack: no call stands before it.
call(ctypes.cast(c.sem_wait, ctypes.c_void_p), ctypes.addressof(semaphore), None if kind == "mount" else place)
