"""Object storage by URL: `s3://bucket/prefix` (and what speaks its protocol), or `file:///directory`.

Where an S3 service other than Amazon's is, and with which credentials, the environment says, as all of its clients have
it: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from twill.exc import StoreUnavailable

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

LARGE = 2**18  # bytes; larger artifacts are no rows
SCHEMES = ("s3://", "file:///")


RETRIES: RetryConfig = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}  # then a front end answers with 503


def bucket(url: str, environment: Mapping[str, str] = os.environ) -> ObjectStore:
    """A bucket; one whose service is named with `http://` is spoken to without TLS."""
    plain = environment.get("AWS_ENDPOINT_URL", "").lower().startswith("http://")
    options: ClientConfig = {"allow_http": plain, "connect_timeout": "3s", "timeout": "30s"}
    return from_url(url, client_options=options, retry_config=RETRIES)


class Objects:
    """The objects under a URL. Raises StoreUnavailable."""

    def __init__(self, url: str) -> None:
        self.url = url
        if not url.startswith(SCHEMES):
            raise StoreUnavailable(url, "it is no address of object storage", "s3://BUCKET/PREFIX or file:///DIRECTORY")
        with self.reporting():
            self.store = from_url(url, mkdir=True) if url.startswith("file:") else bucket(url)

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
        except (BaseError, OSError, ValueError) as error:
            raise StoreUnavailable(
                self.url, " ".join(str(error).partition("Debug source:")[0].split())[:300]
            ) from error
