"""Promises of object storage by URL, spoken to over the network as an S3 service is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.buckets import Bucket, bucket
from twill.exc import StoreUnavailable
from twill.store.objects import Objects


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket called `kernels`, and the environment that says where it is."""
    with bucket("kernels") as found:
        for name, value in (
            ("AWS_ENDPOINT_URL", found.address), ("AWS_ACCESS_KEY_ID", "twill"), ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "here"),
        ):  # fmt: skip
            monkeypatch.setenv(name, value)
        yield found


def test_what_was_put_is_there_for_everybody_who_names_the_bucket(storage: Bucket) -> None:
    Objects("s3://kernels/team").put("key/cubin", b"\x7fELF" * 1000)
    assert storage.objects == {"team/key/cubin": b"\x7fELF" * 1000} and storage.signed
    assert Objects("s3://kernels/team").get("key/cubin") == b"\x7fELF" * 1000
    assert Objects("s3://kernels/team").get("key/other") is None
    assert Objects("s3://kernels/others").get("key/cubin") is None


def test_all_of_a_key_goes_and_nothing_of_another(storage: Bucket) -> None:
    objects = Objects("s3://kernels/team")
    for name in ("k1/a", "k1/b", "k1/c", "k1/d", "k1/e", "k11/a", "k2/a"):
        objects.put(name, b"x")
    objects.remove("k1")
    assert sorted(storage.objects) == ["team/k11/a", "team/k2/a"]
    objects.remove("k1")


def test_a_bucket_that_is_not_there_or_fails_is_told_with_its_address(storage: Bucket) -> None:
    with pytest.raises(StoreUnavailable, match="s3://elsewhere/team"):
        Objects("s3://elsewhere/team").put("k/a", b"x")
    storage.broken = True
    storage.asked.clear()
    with pytest.raises(StoreUnavailable, match="s3://kernels/team"):
        Objects("s3://kernels/team").get("k/a")
    assert len(storage.asked) == 3  # who waits for an answer is not held by ten more tries
