"""`FailedRequest`: the argument of an `on_error` hook."""

import warnings
from dataclasses import dataclass
from typing import Any

from shoal.model.failure import FailureClass
from shoal.model.page import ParseTask
from shoal.model.request import Request


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A request that ended without a usable page: it became a dead letter, or its page is gone.

    `failure_class` compares equal to its name:

        @spider.on_error
        def failed(failed):
            if failed.failure_class == "timeout":
                yield {"url": failed.url, "attempts": failed.attempts}
    """

    request: Request  # the request itself: method, headers, depth, route
    failure_class: FailureClass  # one of the failure classes, such as "timeout" or "gone"
    reason: str  # one line, for a person
    status: int = 0  # HTTP status of the last response; 0: there was no response
    attempts: int = 1  # attempts that were made; 0: an earlier run made them

    @classmethod
    def of(cls, task: ParseTask) -> "FailedRequest":
        """Return the failed request that a parse task carries."""
        final = task.final_failure
        assert final is not None
        return cls(task.request, final.failure_class, final.reason, task.status, final.attempts)

    @property
    def url(self) -> str:
        """The URL of the request."""
        return self.request.url

    @property
    def data(self) -> dict[str, Any]:
        """The `data` dict that the spider attached to the request."""
        return self.request.data

    @property
    def kind(self) -> FailureClass:
        """Deprecated: use `failure_class`."""
        warnings.warn("FailedRequest.kind is now failure_class", DeprecationWarning, stacklevel=2)
        return self.failure_class
