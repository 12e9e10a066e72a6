"""A server of static files for the tests: with ranges, without, and one that misbehaves. Standard library only."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm"}


class Server:
    """Serves the files of `folder`: below /plain/ without ranges, below /short/ with a byte less than was asked for, below
    /changing/ with another tag at each request."""

    def __init__(self, folder):
        served = self
        self.ranges = []
        self.count = 0

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                served.answer(self, Path(folder))

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request, folder):
        parts = unquote(urlsplit(request.path).path).strip("/").split("/")
        way = parts.pop(0) if parts[0] in ("plain", "short", "changing") else ""
        path = folder.joinpath(*parts)
        if ".." in parts or not path.is_file():
            request.send_error(404)
            return
        data = path.read_bytes()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range") or "")
        if wanted and way != "plain":
            start, end = int(wanted[1]), min(int(wanted[2]) + 1, len(data))
            self.ranges.append((path.name, start, end))
            request.send_response(206)
            request.send_header("content-range", f"bytes {start}-{end - 1}/{len(data)}")
            data = data[start : end - 1 if way == "short" and end - start > 1 else end]
        else:
            request.send_response(200)
        self.count += 1
        request.send_header("etag", f'"{self.count if way == "changing" else 0}"')
        request.send_header("content-type", TYPES.get(path.suffix, "application/octet-stream"))
        request.send_header("content-length", str(len(data)))
        request.end_headers()
        try:
            request.wfile.write(data)
        except BrokenPipeError:
            pass
