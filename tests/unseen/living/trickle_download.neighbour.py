"""Outside of the job `trickle_download`: the process it waits for."""

import math, os, time
from http.server import BaseHTTPRequestHandler, HTTPServer

tmp = os.environ["UNSEEN_TMP"]


class H(BaseHTTPRequestHandler):
    def do_GET(self):
        n = math.ceil(float(os.environ.get("UNSEEN_SECONDS", "15")) / 2)
        self.send_response(200)
        self.send_header("Content-Length", str(32 * n))
        self.end_headers()
        for _ in range(n):
            time.sleep(2)
            self.wfile.write(os.urandom(32))
            self.wfile.flush()

    def log_message(self, *a):
        pass


srv = HTTPServer(("127.0.0.1", 0), H)
with open(os.path.join(tmp, "port.part"), "w") as f:
    f.write(str(srv.server_address[1]))
os.rename(os.path.join(tmp, "port.part"), os.path.join(tmp, "port"))
srv.serve_forever()
