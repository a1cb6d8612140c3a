"""Errors of the HTTP API, as `application/problem+json` (RFC 9457)."""

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    title: str
    status: int
    detail: str  # what to change
    code: str  # a stable word for programs, such as `token_missing`
    type: str = "about:blank"
    retry_after_s: float | None = None


class ApiError(Exception):
    """A request that is answered with a problem. Raised by handlers of the server, and by `shoal.Client`."""

    def __init__(
        self, status: int, code: str, detail: str, *, retry_after_s: float | None = None, allow: str = ""
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.allow = allow  # methods of the path
