"""What is answered instead of what was asked for: one document for every error."""

from __future__ import annotations

from typing import Any

from twill.exc import TwillError
from twill.store.api import Refusal


class RefusedRequest(Exception):
    """A request that is not answered as it was meant; `status` is the HTTP status."""

    def __init__(
        self, status: int, kind: str, message: str, hint: str = "", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.hint = hint
        self.headers = headers or {}

    @classmethod
    def of(cls, error: TwillError) -> RefusedRequest:
        """A user's mistake, as the command line would report it."""
        return cls(422, type(error).__name__, error.describe().split("\n  instead: ")[0], error.hint)

    def document(self, request: str) -> Refusal:
        """The body of the answer to the request of that id."""
        return Refusal(kind=self.kind, message=self.message, hint=self.hint, request_id=request)


MEANINGS = {
    400: "The request is not HTTP, or its body not JSON.",
    401: "A token is needed.",
    403: "The token lacks the scope, or the request comes from another site.",
    404: "There is none.",
    405: "The resource has no such method.",
    408: "The body did not come in time.",
    409: "The job is in another state, or is not remembered well enough.",
    413: "The body, or the graph in it, is too large.",
    415: "The body is of another type.",
    422: "The request says something that means nothing here.",
    429: "Too many requests, or too many jobs waiting; Retry-After says for how many seconds.",
    500: "A mistake of the service.",
    503: "The service cannot answer now; Retry-After says for how many seconds.",
}


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of error statuses for OpenAPI."""
    return {status: {"model": Refusal, "description": MEANINGS[status]} for status in statuses}
