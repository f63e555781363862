"""The store, the service and lock files."""

from __future__ import annotations

from twill.exc.base import TwillError
from twill.exc.foreign import one_line

# The store (twill.store).


class StoreUnavailable(TwillError):
    """A store cannot be opened, read or written. `store`: its place."""

    def __init__(self, store: str, why: str, hint: str = "another place, or --no-store") -> None:
        super().__init__(f"the schedule store {store}: {why}", hint=hint)
        self.store = store


class NoSuchEntry(TwillError):
    """A key, or the beginning of one, that names no stored schedule or several."""


class MalformedArchive(TwillError):
    """A file of exported schedules is cut, was changed, or is no such file."""


class BadSigningKeys(TwillError):
    """The file of keys that sign artifacts cannot be used: no keys are in it, or others can read it."""


class BadServerAddress(TwillError):
    """What was given as the address of a service is none."""

    def __init__(self, address: str, hint: str) -> None:
        super().__init__(f"`{address}` is not the address of a service", hint=hint)


class ServiceUnavailable(TwillError):
    """A service does not answer, or with what no service of this version says. `service`: its address."""

    def __init__(self, service: str, why: str) -> None:
        said = one_line(why)
        super().__init__(f"the service {service}: {said}", hint="try again later, or without --server")
        self.service = service
        self.why = said


class JobFailed(TwillError):
    """A job of a service ended without a schedule. kind: a class of this package, or the service's own word.

    exit_code: what the command line says of that kind; never what the service says of it.
    """

    exit_code = 5

    def __init__(self, service: str, kind: str, message: str, hint: str = "", exit_code: int = exit_code) -> None:
        super().__init__(f"the service {service}: {one_line(message)}", hint=one_line(hint))
        self.kind = one_line(kind)
        self.exit_code = exit_code


class ServiceRefused(TwillError):
    """A service says no. status: of HTTP. kind: its name for the reason, such as a class of this file."""

    def __init__(
        self, service: str, status: int, kind: str, message: str, hint: str = "", request_id: str = ""
    ) -> None:
        request = f" (request {one_line(request_id)})" if request_id else ""
        super().__init__(f"the service {service}: {one_line(message)}{request}", hint=one_line(hint))
        self.status = status
        self.kind = one_line(kind)


# The service (twill.server).


POSTGRES = frozenset({"psycopg", "psycopg_pool", "obstore"})


class ServerNotInstalled(TwillError):
    """The libraries of the service are not installed."""

    def __init__(self, missing: str) -> None:
        extra = "server,postgres" if missing in POSTGRES else "server"
        super().__init__(f"`twill serve` and `twill work` need {missing}", hint=f'pip install "twill-gpu[{extra}]"')


class IncompleteTls(TwillError):
    """A certificate without its key, or a key without a certificate."""

    def __init__(self) -> None:
        super().__init__("TLS needs a certificate and its key", hint="--tls-certificate FILE --tls-key FILE")


class MalformedTokenFile(TwillError):
    """A file of API tokens cannot be read, or a line of it is none."""


class OpenToEverybody(TwillError):
    """A service without tokens was asked to listen to other machines."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"without tokens the service listens to this machine only, not on {host}",
            hint="--token-file FILE (docs/service.md), or --host 127.0.0.1",
        )


class CannotListen(TwillError):
    """The address of the service is taken or not this machine's."""


class BadSubmission(TwillError):
    """A submission that cannot be solved: a graph or a machine that contradicts itself, or beyond a limit."""


# Continuous integration (twill.cli.ci).


class MalformedLock(TwillError):
    """A lock file is cut, edited, or of another version."""


class NoKernels(TwillError):
    """There is nothing for `twill ci` to look at."""
