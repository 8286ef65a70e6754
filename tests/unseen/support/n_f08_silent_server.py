"""Accepts connections and never says a word."""
import socket
from common import *
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
publish("port", s.getsockname()[1])
kept = []
while True:
    kept.append(s.accept())
