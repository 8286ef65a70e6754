"""Answers every GET after UNSEEN_SECONDS."""
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

seconds = float(os.environ.get("UNSEEN_SECONDS", "15"))


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(seconds)
        body = b'{"state": "done"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a):
        pass


srv = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
path = os.path.join(os.environ["UNSEEN_TMP"], "port")
with open(path + ".new", "w") as f:
    f.write(str(srv.server_address[1]))
os.replace(path + ".new", path)
srv.serve_forever()
