"""A little of a Docker engine's HTTP interface on a Unix socket: version, list of containers, no builder of buildx."""

import http.server
import json
import socketserver
import sys


class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        status = 200
        if self.path.endswith("/_ping"):
            body, kind = b"OK", "text/plain"
        elif self.path.endswith("/version"):
            body, kind = json.dumps({"Version": "1.2.3", "ApiVersion": "1.45", "Os": "linux"}).encode(), "application/json"
        elif "/containers/buildx_" in self.path:
            # buildx asks for the container of its builder.
            status = 404
            body, kind = json.dumps({"message": "No such container"}).encode(), "application/json"
        else:
            is_podman = "/libpod/" in self.path
            created, command = ("2026-01-02T03:04:05Z", ["c"]) if is_podman else (1, "c")
            entry = {"Id": "0123456789abcdef", "Image": "i", "Command": command, "Names": ["/n"], "Created": created}
            body, kind = json.dumps([entry]).encode(), "application/json"
        self.send_response(status)
        self.send_header("Api-Version", "1.45")
        self.send_header("Libpod-API-Version", "4.3.1")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = answer

    def address_string(self):
        return "client"

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


Server(sys.argv[1], Engine).serve_forever()
