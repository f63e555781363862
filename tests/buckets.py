"""One bucket of S3-compatible storage on loopback: as much of the protocol as clients of a store need."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 2  # names of a list in one answer; S3 has 1000
SPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


@dataclass
class Bucket:
    """objects: bytes by name. asked: method and path of every request. broken: answer nothing but 503."""

    address: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    signed: bool = True
    broken: bool = False


@contextmanager
def bucket(name: str) -> Iterator[Bucket]:
    """The bucket, at work."""
    found = Bucket()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *words: object) -> None:
            pass

        def reply(self, status: int, content: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def handle_any(self) -> None:
            """Any request, with a signature or not at all."""
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            url = urlsplit(self.path)
            found.asked.append(f"{self.command} {url.path}")
            found.signed &= "AWS4-HMAC-SHA256" in (self.headers.get("Authorization") or "")
            _, holder, key = (*unquote(url.path).split("/", 2), "")[:3]
            query = parse_qs(url.query, keep_blank_values=True)
            if found.broken:
                self.reply(503)
            elif holder != name:
                self.reply(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            elif self.command == "PUT":
                found.objects[key] = content
                self.reply(200, ETag=tag(content))
            elif self.command == "POST" and "delete" in query:
                names = re.findall(r"<Key>(.*?)</Key>", content.decode())
                for one in names:
                    found.objects.pop(one, None)
                rows = "".join(f"<Deleted><Key>{one}</Key></Deleted>" for one in names)
                self.reply(200, f"<DeleteResult {SPACE}>{rows}</DeleteResult>".encode())
            elif self.command == "DELETE":
                found.objects.pop(key, None)
                self.reply(204)
            elif not key:
                self.reply(200, listed(query))
            elif key in found.objects:
                held = found.objects[key]
                self.reply(200, held, ETag=tag(held), Last_Modified="Mon, 02 Nov 2026 10:00:00 GMT")
            else:
                self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def listed(query: dict[str, list[str]]) -> bytes:
        """ListObjectsV2, two names at a time."""
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        names = sorted(one for one in found.objects if one.startswith(prefix) and one > after)
        page, more = names[:PAGE], len(names) > PAGE
        rows = "".join(
            f"<Contents><Key>{escape(one)}</Key><LastModified>2026-11-02T10:00:00.000Z</LastModified>"
            f"<ETag>{escape(tag(found.objects[one]))}</ETag><Size>{len(found.objects[one])}</Size></Contents>"
            for one in page
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        head = f"<Name>{name}</Name><KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>"
        return f"<ListBucketResult {SPACE}>{head}{token}{rows}</ListBucketResult>".encode()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def tag(content: bytes) -> str:
    """An object's ETag."""
    return f'"{md5(content, usedforsecurity=False).hexdigest()}"'
