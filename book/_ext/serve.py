"""Serves a built book on localhost the way a web host would: right types, gzip, parallel requests.

python book/_ext/serve.py _build/html [port]
"""

import functools
import gzip
import socket
import sys
import threading
from collections import Counter
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = "127.0.0.1"
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".py": "text/plain"}
_COMPRESSED = {".html", ".css", ".js", ".mjs", ".json", ".svg", ".wasm", ".py", ".txt"}


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if path.is_dir():
            path /= "index.html"
        if not path.is_file():
            return self.send_error(404)
        packed = path.suffix in _COMPRESSED and "gzip" in self.headers.get("Accept-Encoding", "")
        body = _gzipped(path, path.stat().st_mtime_ns) if packed else path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", _TYPES.get(path.suffix) or self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-cache")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)
        self.server.sent[self.path.partition("?")[0]] += len(body)

    def log_message(self, *_arguments):
        pass


@functools.lru_cache(maxsize=256)
def _gzipped(path, _changed):
    return gzip.compress(path.read_bytes(), 6)


class Server(ThreadingHTTPServer):
    """A server for `directory`; `sent` counts the bytes of each path that went over the wire."""

    daemon_threads = True

    def __init__(self, directory, port=0, handler=Handler):
        super().__init__((HOST, port), functools.partial(handler, directory=str(directory)))
        self.sent = Counter()
        self.url = f"http://{HOST}:{self.server_port}/"

    def handle_error(self, request, client_address):
        """A browser that hangs up, as on leaving a page, is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self


def free_port(wanted):
    """`wanted`, or any other port where that one is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError:
            return 0
    return wanted


def main(directory="_build/html", port="8000"):
    if not (Path(directory) / "index.html").is_file():
        return f"{directory} holds no index.html: build the book first."
    server = Server(directory, free_port(int(port)))
    print(f"The book is at {server.url} (Ctrl+C ends it).", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
