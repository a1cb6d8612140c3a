"""How many requests may be in progress at once: of one token, and of all together.

A connection whose request is in progress cannot be closed to make room for another one, so a caller whose
requests take long could fill every place. Health checks and refusals are answered at once and take none.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.model.api.problem import ApiError

MAX_IN_PROGRESS = 448  # of all callers; less than the connections, so that quick answers find one
MAX_OF_ONE_TOKEN = 128
MAX_STREAMS_OF_ONE_TOKEN = 64  # events and downloads, which may last for days
RETRY_S = 2.0


class RequestPlaces:
    def __init__(
        self,
        total: int = MAX_IN_PROGRESS,
        of_one_token: int = MAX_OF_ONE_TOKEN,
        streams_of_one_token: int = MAX_STREAMS_OF_ONE_TOKEN,
    ) -> None:
        self._total = total
        self._of_one_token = of_one_token
        self._streams_of_one_token = streams_of_one_token
        self._requests: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    @contextmanager
    def hold(self, token: str) -> Iterator[None]:
        """Hold a place while a request is in progress; raise 429 or 503 if all are taken."""
        if self._requests[token] >= self._of_one_token:
            detail = f"{self._of_one_token} requests of this token are in progress already"
            raise ApiError(429, "too_many_in_progress", detail, retry_after_s=RETRY_S)
        if self._requests.total() >= self._total:
            raise ApiError(503, "busy", "too many requests are in progress", retry_after_s=RETRY_S)
        with _counted(self._requests, token):
            yield

    @contextmanager
    def hold_stream(self, token: str) -> Iterator[None]:
        """Hold a place for an answer that is streamed; raise 429 if the token has too many."""
        if self._streams[token] >= self._streams_of_one_token:
            detail = f"this token follows {self._streams_of_one_token} streams already"
            raise ApiError(429, "too_many_streams", detail, retry_after_s=RETRY_S)
        with _counted(self._streams, token):
            yield


@contextmanager
def _counted(counter: Counter[str], key: str) -> Iterator[None]:
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]
