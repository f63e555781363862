"""The members of a family that is one directory, as `twill tune --out` writes it."""

from __future__ import annotations

import logging
from pathlib import Path

from twill import exc
from twill.manifest.family import read_family
from twill.runtime.kernel import EmittedKernel
from twill.runtime.member import FamilyMember

LOG = logging.getLogger("twill.family")


def read_members(directory: Path) -> tuple[tuple[FamilyMember, ...], str]:
    """The members in a directory, and the digest of its document. Members that cannot be read are left out, which is
    logged. Errors: FileMissing, MalformedManifest; the last member's if none can be read."""
    family = read_family(directory)
    members: list[FamilyMember] = []
    last: exc.TwillError = exc.MalformedManifest("has no members", file=str(directory), hint="tune the kernel again")
    for entry in family.members:
        try:
            kernel = EmittedKernel.load(directory / entry.folder)
        except exc.TwillError as error:
            last = error
            LOG.warning("%s is left out: %s", directory / entry.folder, error.message)
            continue
        members += FamilyMember.of(entry.folder, kernel, entry.cost).in_parts()
    if not members:
        raise last
    return tuple(members), family.digest
