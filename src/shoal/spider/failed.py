"""`FailedRequest`: a request that was given up or is gone, as an `on_error` hook sees it."""

from dataclasses import dataclass
from typing import Any

from shoal.model.failure import FailureClass
from shoal.model.page import ParseTask
from shoal.model.request import Request


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """One request that has come to its end, and why. A class is also its name: `kind == "timeout"`."""

    request: Request
    kind: FailureClass
    reason: str  # one line
    status: int = 0  # of the last answer; 0: there was none
    attempts: int = 1  # 0: an earlier run made them

    @classmethod
    def of(cls, task: ParseTask) -> "FailedRequest":
        end = task.given_up
        assert end is not None
        return cls(task.request, end.kind, end.reason, task.status, end.attempts)

    @property
    def url(self) -> str:
        return self.request.url

    @property
    def data(self) -> dict[str, Any]:
        """What the request carried for its handler."""
        return self.request.data
