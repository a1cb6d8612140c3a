"""What handlers may return besides a message: bytes of another type, and streams."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

JSON = b"application/json"


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    policy: bytes = b""  # empty: that of the API, which allows nothing


@dataclass(frozen=True)
class StreamedAnswer(Answer):
    """An answer whose length is not known when it begins."""

    open: Callable[[], AbstractAsyncContextManager[AsyncIterator[bytes]]] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class TypedAnswer(Generic[T]):
    """A message with additional headers."""

    value: T
    headers: tuple[tuple[bytes, bytes], ...] = ()
