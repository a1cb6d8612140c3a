"""A route of the API as data. The types of its parameters, body and answer are those of its handler."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

from shoal.model.api.roles import Role
from shoal.server.http.answers import TypedAnswer

MAX_BODY_BYTES = 1 << 20

Handler = Callable[..., Awaitable[object]]


@dataclass(frozen=True)
class ApiRoute:
    """One operation. The handler takes the server, its parameters, and the body if it has one."""

    method: str
    path: str  # `{name}` stands for one segment
    role: Role
    handler: Handler
    cost: float = 1.0  # of the tokens that the rate limit refills
    max_body_bytes: int = MAX_BODY_BYTES
    status: int = 200
    kept: bool = True  # its answer may be kept for an idempotency key: it has no secret, and is not a page

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        return get_type_hints(self.handler, include_extras=True)

    @cached_property
    def params(self) -> type[Any]:
        """The type of path and query parameters together."""
        return self.hints["params"]  # type: ignore[no-any-return]

    @cached_property
    def body(self) -> Any:
        """The type of the body; None: no body."""
        return self.hints.get("body")

    @cached_property
    def answer(self) -> Any:
        """The type of the message that is sent back; an `Answer`: not JSON."""
        returned = self.hints["return"]
        return get_args(returned)[0] if get_origin(returned) is TypedAnswer else returned

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def topic(self) -> str:
        return self.handler.__module__.rpartition(".")[2].replace("_", " ")

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.handler) or "").partition("\n")[0]

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    @cached_property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.split("/")[1:])

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.segments if part.startswith("{"))

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the values of the path's names; None: this is another path."""
        if len(segments) != len(self.segments):
            return None
        found = {}
        for want, got in zip(self.segments, segments, strict=True):
            if want.startswith("{"):
                if not got:
                    return None
                found[want[1:-1]] = got
            elif want != got:
                return None
        return found


@dataclass(frozen=True, slots=True)
class Matched:
    route: ApiRoute
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Unmatched:
    allowed: tuple[str, ...] = ()  # methods of the path; empty: there is no such path


@dataclass(frozen=True)
class RouteTable:
    routes: Sequence[ApiRoute]
    _by_length: Mapping[int, Sequence[ApiRoute]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lengths = {len(route.segments) for route in self.routes}
        by_length = {n: [one for one in self.routes if len(one.segments) == n] for n in lengths}
        object.__setattr__(self, "_by_length", by_length)

    def find(self, method: str, raw_path: bytes) -> Matched | Unmatched:
        """Return the route of a request. HEAD is answered like GET.

        A path is split before it is decoded: `%2F` in a name is part of the name, and `..`, `//` or a
        trailing slash make another path.
        """
        segments = split_path(raw_path)
        wanted = "GET" if method == "HEAD" else method
        allowed = []
        for route in () if segments is None else self._by_length.get(len(segments), ()):
            if (values := route.match(segments or ())) is not None:
                if route.method == wanted:
                    return Matched(route, values)
                allowed.append(route.method)
        return Unmatched(tuple(sorted({*allowed, *(["HEAD"] if "GET" in allowed else [])})))


def split_path(raw_path: bytes) -> list[str] | None:
    """Return the decoded segments of a path; None: it is not UTF-8."""
    if not raw_path.startswith(b"/"):
        return None
    try:
        return [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        return None
