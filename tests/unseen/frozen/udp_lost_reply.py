"""UDP metrics handshake without a timeout: the datagram went to a port nobody reads."""
import socket

sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(("127.0.0.1", 0))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 0))
s.sendto(b"hello", s.getsockname())
print(s.recvfrom(100)[0], flush=True)
s.sendto(b"HELLO rank=0", sink.getsockname())
print("frozen soon", flush=True)
data, peer = s.recvfrom(1500)
print("welcome from", peer)
