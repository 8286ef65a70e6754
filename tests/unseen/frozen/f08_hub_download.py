"""Download model weights over https from an internal hub."""
import os, socket, ssl, time

TMP = os.environ["UNSEEN_TMP"]


def hub_address():
    path = os.path.join(TMP, "port")
    while not os.path.exists(path):
        time.sleep(0.05)
    return "127.0.0.1", int(open(path).read())


def download(host, port, name):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection((host, port)) as raw:
        with context.wrap_socket(raw, server_hostname="hub.internal") as s:
            s.sendall(("GET /models/%s HTTP/1.0\r\n\r\n" % name).encode())
            data = b""
            while chunk := s.recv(65536):
                data += chunk
    return data


host, port = hub_address()
weights = download(host, port, "bert-tiny/pytorch_model.bin")
print("downloaded", len(weights))
