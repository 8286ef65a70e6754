"""Frames are read and written as the shared golden vectors have them, and nothing else is taken for one."""

from __future__ import annotations

import json
import os
import socket
import struct
import unittest
from pathlib import Path
from typing import Iterator, Tuple

from gpulane._wire import PREFIX, Connection, WireError, encode, take_frame

VECTORS = Path(__file__).resolve().parents[2] / "tests" / "map-protocol"


def vectors() -> Iterator[Tuple[str, bytes, dict]]:
    for path in sorted(VECTORS.glob("*.bin")):
        yield path.stem, path.read_bytes(), json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


class GoldenVectors(unittest.TestCase):
    def test_there_are_some(self) -> None:
        names = {name for name, _, _ in vectors()}
        self.assertLessEqual({"hello", "setup", "ready", "ring", "batch", "results", "bye", "load", "loaded"}, names)

    def test_each_is_read(self) -> None:
        for name, data, told in vectors():
            with self.subTest(name):
                held = bytearray(data + b"next")
                self.assertEqual(take_frame(held), (told["head"], bytes.fromhex(told["body"])))
                self.assertEqual(held, b"next")

    def test_what_is_written_is_read_as_the_same(self) -> None:
        for name, _, told in vectors():
            with self.subTest(name):
                body = bytes.fromhex(told["body"])
                self.assertEqual(take_frame(bytearray(encode(told["head"], len(body)) + body)), (told["head"], body))

    def test_part_of_one_is_waited_for(self) -> None:
        for name, data, _ in vectors():
            with self.subTest(name):
                for cut in range(len(data)):
                    self.assertIsNone(take_frame(bytearray(data[:cut])))

    def test_broken_ones_end_the_connection(self) -> None:
        broken = sorted((VECTORS / "broken").glob("*.bin"))
        self.assertTrue(broken)
        for path in broken:
            with self.subTest(path.stem), self.assertRaises(WireError):
                take_frame(bytearray(path.read_bytes()))


class Connections(unittest.TestCase):
    def setUp(self) -> None:
        here, self.there = socket.socketpair()
        self.connection = Connection(here)
        self.addCleanup(self.connection.close)
        self.addCleanup(self.there.close)

    def test_a_descriptor_comes_with_its_frame(self) -> None:
        data = encode({"frame": "ring"})
        memory = os.memfd_create("ring")
        os.write(memory, b"hello")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", memory))]
        self.there.sendall(encode({"frame": "wait"}))
        self.there.sendmsg([data[:1]], rights)
        self.there.sendall(data[1:] + encode({"frame": "bye"}))
        os.close(memory)
        frames = [self.connection.receive() for _ in range(3)]
        self.assertEqual([frame.head["frame"] for frame in frames], ["wait", "ring", "bye"])
        self.assertEqual([frame.fd is not None for frame in frames], [False, True, False])
        assert frames[1].fd is not None
        self.assertEqual(os.pread(frames[1].fd, 5, 0), b"hello")
        os.close(frames[1].fd)

    def test_bodies_are_sent_one_after_the_other(self) -> None:
        self.connection.send("results", b"abc", b"", memoryview(b"defg"), batch=1)
        held = bytearray(self.there.recv(1 << 16))
        self.assertEqual(PREFIX.unpack_from(held)[4], 7)
        self.assertEqual(take_frame(held), ({"frame": "results", "batch": 1}, b"abcdefg"))

    def test_a_closed_connection_is_an_error(self) -> None:
        self.there.close()
        with self.assertRaises(ConnectionError):
            self.connection.receive()


if __name__ == "__main__":
    unittest.main()
