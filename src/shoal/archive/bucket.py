"""Segments on an object store, so that pages fetched on one machine can be read on any other.

`s3://bucket/prefix` (also `gs://`, `az://`). An object cannot grow: every flush makes a segment of its own.
Addresses of servers and credentials come from the environment, as every tool for that store takes them
(AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, or a role of the machine).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from itertools import takewhile

import obstore
from obstore import exceptions
from obstore.store import ObjectStore, from_url

from shoal.archive.names import SegmentName
from shoal.archive.segments import EXPIRED, segments_among
from shoal.model.errors import Misconfigured, Unavailable

_CONNECT, _ANSWER = timedelta(seconds=5), timedelta(seconds=60)
RETRIES = 5  # within one call, for 20 seconds at most; longer outages are the caller's to bear
_RETRY = timedelta(seconds=20)
# As the library spells it. The bare number may also be a part of a name, or of how long a try took: then an
# object store that is away would make pages look cut short that are whole.
_BEYOND = "status code: 416 "
_LASTING = (
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
        with self._translated():
            self._store: ObjectStore = from_url(
                location,
                client_options={
                    "connect_timeout": _CONNECT,
                    "timeout": _ANSWER,
                    "allow_http": endpoint.startswith("http://"),
                },
                retry_config={"max_retries": RETRIES, "retry_timeout": _RETRY},
            )

    def segments(self, stem: str = "") -> list[SegmentName]:
        """List what is there, oldest first; `stem`: of one writer only."""
        with self._translated():
            # Names come sorted: those of one writer lie together, however many others there are.
            found = (entry["path"] for part in obstore.list(self._store, offset=stem) for entry in part)
            names = list(takewhile(lambda name: name.startswith(stem), found))
        return sorted(name for name in segments_among(names) if stem in ("", name.crawl))

    def size(self, segment: SegmentName) -> int | None:
        """Return the length in bytes; None: there is no such segment."""
        with self._translated():
            try:
                return obstore.head(self._store, str(segment))["size"]
            except FileNotFoundError:
                return None

    def read(self, segment: SegmentName, offset: int, length: int) -> bytes | None:
        """Return up to `length` bytes, fewer at the end; None: there is no such segment."""
        if not length:
            return b""
        with self._translated():
            try:
                return bytes(obstore.get_range(self._store, str(segment), start=offset, length=length))
            except FileNotFoundError:
                return None
            except exceptions.GenericError as error:
                if _BEYOND in str(error).partition("\n")[0]:  # nothing there any more, not even one byte
                    return b""
                raise

    def write(self, segment: SegmentName, offset: int, data: bytes, *, sync: bool) -> None:
        """Make a whole segment, durable at once; repeat the call if it raised."""
        assert not offset, "an object cannot grow"
        self._put(str(segment), data)

    def cut(self, segment: SegmentName, length: int) -> None:
        """Drop everything after `length` bytes."""
        self._put(str(segment), self.read(segment, 0, length) or b"")

    def remove(self, segment: SegmentName) -> None:
        """Delete a segment; nothing happens if it is gone already."""
        with self._translated(), suppress(FileNotFoundError):
            obstore.delete(self._store, str(segment))

    def expired_until(self) -> date | None:
        """Tell the last day whose segments were deleted on purpose."""
        with self._translated():
            try:
                told = bytes(obstore.get(self._store, EXPIRED).bytes())
            except FileNotFoundError:
                return None
        try:
            return date.fromisoformat(told.decode().strip())
        except ValueError:
            raise Misconfigured(f"archive: {self.path}/{EXPIRED} does not hold a date; delete it") from None

    def was_expired(self, segment: SegmentName) -> bool:
        """Say whether a segment that is not there was deleted on purpose."""
        until = self.expired_until()
        return until is not None and segment.day <= until

    def mark_expired(self, until: date) -> None:
        """Remember that the segments up to and including this day are deleted on purpose."""
        self._put(EXPIRED, f"{until.isoformat()}\n".encode())

    def close(self) -> None:
        """Nothing is held open between two calls."""

    def _put(self, name: str, data: bytes) -> None:
        with self._translated():
            try:
                obstore.put(self._store, name, data)
            except FileNotFoundError:  # what is missing is the bucket itself
                raise Misconfigured(f"archive: {self.path}: there is no such bucket") from None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _LASTING as error:
            raise Misconfigured(f"archive: {self.path}: {_first_line(error)}") from None
        except exceptions.BaseError as error:
            raise Unavailable(f"archive: {self.path}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    """Leave out what follows for debugging: whole answers, and settings."""
    return str(error).partition("\n")[0][:300]
