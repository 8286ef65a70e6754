"""Answers the long poll of l06 after a while."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from common import *


class H(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(SECONDS)
        body = b'{"task": 17}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a):
        pass


srv = HTTPServer(("127.0.0.1", 0), H)
publish("port", srv.server_port)
srv.serve_forever()
