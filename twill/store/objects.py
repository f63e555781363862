"""Object storage by URL: `s3://bucket/prefix` (and what speaks its protocol), or `file:///directory`.

Where an S3 service other than Amazon's is, and with which credentials, the environment says, as all of its clients have
it: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from twill.exc import StoreUnavailable

LARGE = 2**18  # bytes; larger artifacts are no rows
SCHEMES = ("s3://", "file:///")


class Objects:
    """The objects under a URL. Raises StoreUnavailable."""

    def __init__(self, url: str) -> None:
        self.url = url
        if not url.startswith(SCHEMES):
            raise StoreUnavailable(url, "it is no address of object storage", "s3://BUCKET/PREFIX or file:///DIRECTORY")
        with self.reporting():
            self.store = from_url(url, mkdir=True) if url.startswith("file:") else from_url(url)

    def get(self, name: str) -> bytes | None:
        """The bytes of an object, or None."""
        with self.reporting(), contextlib.suppress(FileNotFoundError):
            return bytes(obstore.get(self.store, name).bytes())
        return None

    def put(self, name: str, data: bytes) -> None:
        """Write an object whole, or not at all."""
        with self.reporting():
            obstore.put(self.store, name, data)

    def remove(self, prefix: str) -> None:
        """Remove every object whose name begins with a prefix and "/"."""
        with self.reporting():
            names = [found["path"] for page in obstore.list(self.store, prefix=prefix) for found in page]
            if names:
                obstore.delete(self.store, names)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """What the storage refuses, as StoreUnavailable."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise StoreUnavailable(self.url, " ".join(str(error).split())[:300]) from error
