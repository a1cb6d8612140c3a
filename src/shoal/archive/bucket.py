"""Segments on an object store, so that every machine can read pages that one of them has fetched.

`s3://bucket/prefix` (also `gs://`, `az://`). An object cannot grow: every flush makes a new segment. Server
addresses and credentials come from the environment variables that other tools for that store use
(AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION), or from a role of the machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from itertools import takewhile

import obstore
from obstore import exceptions
from obstore.store import ObjectStore, from_url

from shoal.archive.contract import ArchiveFactory
from shoal.archive.names import SegmentName
from shoal.archive.segments import EXPIRED_FILE, segments_among
from shoal.model.errors import Misconfigured, Unavailable

_CONNECT_TIMEOUT, _TIMEOUT = timedelta(seconds=5), timedelta(seconds=60)
RETRIES = 5  # within one call, for 20 seconds at most; the caller handles longer outages
_RETRY_TIMEOUT = timedelta(seconds=20)
# The text of the library's error. The bare number may also be part of a name or of a duration: then an
# unavailable object store would make complete pages look truncated.
_BEYOND_END = "status code: 416 "
_PERMANENT = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.InvalidPathError,
    exceptions.UnknownConfigurationKeyError,
    exceptions.NotSupportedError,
)


class SegmentBucket:
    """The segments of one crawl below a prefix of an object store."""

    grows = False

    def __init__(self, location: str) -> None:
        self.path = location
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        with self._translate_errors():
            self._store: ObjectStore = from_url(
                location,
                client_options={
                    "connect_timeout": _CONNECT_TIMEOUT,
                    "timeout": _TIMEOUT,
                    "allow_http": endpoint.startswith("http://"),
                },
                retry_config={"max_retries": RETRIES, "retry_timeout": _RETRY_TIMEOUT},
            )

    def segments(self, stem: str = "") -> list[SegmentName]:
        """Return the names of all segments, oldest first; `stem`: of one writer only."""
        with self._translate_errors():
            # The list is sorted: the names of one writer are contiguous, however many others there are.
            found = (entry["path"] for part in obstore.list(self._store, offset=stem) for entry in part)
            names = list(takewhile(lambda name: name.startswith(stem), found))
        return sorted(name for name in segments_among(names) if stem in ("", name.crawl))

    def size(self, segment: SegmentName) -> int | None:
        """Return the length in bytes; None: there is no such segment."""
        with self._translate_errors():
            try:
                return obstore.head(self._store, str(segment))["size"]
            except FileNotFoundError:
                return None

    def read(self, segment: SegmentName, offset: int, length: int) -> bytes | None:
        """Return up to `length` bytes, fewer at the end; None: there is no such segment."""
        if not length:
            return b""
        with self._translate_errors():
            try:
                return bytes(obstore.get_range(self._store, str(segment), start=offset, length=length))
            except FileNotFoundError:
                return None
            except exceptions.GenericError as error:
                if _BEYOND_END in str(error).partition("\n")[0]:  # the offset is at or after the end
                    return b""
                raise

    def write(self, segment: SegmentName, offset: int, data: bytes, *, sync: bool) -> None:
        """Create a whole segment, which is durable at once; repeat the call if it raises."""
        assert not offset, "an object cannot grow"
        self._put(str(segment), data)

    def cut(self, segment: SegmentName, length: int) -> None:
        """Cut a segment to `length` bytes."""
        self._put(str(segment), self.read(segment, 0, length) or b"")

    def remove(self, segment: SegmentName) -> None:
        """Delete a segment, if it exists."""
        with self._translate_errors(), suppress(FileNotFoundError):
            obstore.delete(self._store, str(segment))

    def expired_until(self) -> date | None:
        """Return the last day whose segments have expired."""
        with self._translate_errors():
            try:
                text = bytes(obstore.get(self._store, EXPIRED_FILE).bytes())
            except FileNotFoundError:
                return None
        try:
            return date.fromisoformat(text.decode().strip())
        except ValueError:
            raise Misconfigured(
                f"archive: {self.path}/{EXPIRED_FILE} does not hold a date; delete it"
            ) from None

    def was_expired(self, segment: SegmentName) -> bool:
        """Return whether a segment that does not exist was deleted because it had expired."""
        until = self.expired_until()
        return until is not None and segment.day <= until

    def mark_expired(self, until: date) -> None:
        """Store that the segments up to and including this day have expired."""
        self._put(EXPIRED_FILE, f"{until.isoformat()}\n".encode())

    def close(self) -> None:
        """Do nothing: no connection stays open between two calls."""

    def _put(self, name: str, data: bytes) -> None:
        with self._translate_errors():
            try:
                obstore.put(self._store, name, data)
            except FileNotFoundError:  # `put` creates the object, so the bucket is missing
                raise Misconfigured(f"archive: {self.path}: there is no such bucket") from None

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except _PERMANENT as error:
            raise Misconfigured(f"archive: {self.path}: {_first_line(error)}") from None
        except exceptions.BaseError as error:
            raise Unavailable(f"archive: {self.path}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    """Return the first line of an error; the others contain whole responses and settings, for debugging."""
    return str(error).partition("\n")[0][:300]


FACTORY = ArchiveFactory(open=SegmentBucket)
