#!/usr/bin/env python3
"""Serves the dashboard's files from disk in front of a real daemon, so that a reload shows a change.

    relight up --listen 127.0.0.1:7717 &
    ./serve.py 7799 127.0.0.1:7717
    relight dashboard --print     # open its path at port 7799
"""

import http.client
import http.server
import mimetypes
import pathlib
import socketserver
import sys

ASSETS = pathlib.Path(__file__).resolve().parent.parent / "assets"
VIEWS = {"", "agents", "timeline", "tasks", "sessions", "events", "nodes"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
NOT_PASSED_ON = {"host", "origin", "connection", "sec-fetch-site", "accept-encoding"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_any(self):
        path = self.path.split("?")[0]
        first = path.split("/")[1]
        if first == "assets":
            return self.file(ASSETS / path.removeprefix("/assets/"))
        if first in VIEWS or first == "login":
            return self.file(ASSETS / ("login.html" if first == "login" else "index.html"))
        return self.forward()

    def file(self, path):
        if not path.resolve().is_relative_to(ASSETS) or not path.is_file():
            return self.answer(404, [], b"")
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self.answer(200, [("Content-Type", kind), ("Content-Security-Policy", POLICY), ("Cache-Control", "no-store")], path.read_bytes())

    def forward(self):
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in NOT_PASSED_ON}
        daemon = http.client.HTTPConnection(DAEMON, timeout=600)
        daemon.request(self.command, self.path, self.rfile.read(length) if length else None, {**headers, "Host": DAEMON})
        found = daemon.getresponse()
        kept = [pair for pair in found.getheaders() if pair[0].lower() not in {"transfer-encoding", "content-length", "connection"}]
        if "event-stream" not in (found.getheader("Content-Type") or ""):
            return self.answer(found.status, kept, found.read())
        self.answer(found.status, [*kept, ("Connection", "close")], None)
        self.close_connection = True
        try:
            while part := found.read1(65536):
                self.wfile.write(part)
        except OSError:
            pass  # The page was left.

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body or b"")

    do_GET = do_POST = do_DELETE = handle_any


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True


if __name__ == "__main__":
    PORT, DAEMON = int(sys.argv[1]), sys.argv[2]
    Server(("127.0.0.1", PORT), Handler).serve_forever()
