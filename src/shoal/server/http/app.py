"""The ASGI application: checks, decodes, calls a handler, encodes.

Every answer that is not 2xx is a problem (RFC 9457) that says what to change. A bug in a handler is logged
and answered with 500; it never ends the server.
"""

import asyncio
import hashlib
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import partial
from http import HTTPStatus
from typing import Any, NoReturn, Protocol, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from shoal.model.api.problem import ApiError, Problem
from shoal.model.errors import Interrupted, Lost, Misconfigured, Rejected, ShoalError, Unavailable
from shoal.server.access.gate import AccessGate, Caller, read_headers
from shoal.server.access.places import RequestPlaces
from shoal.server.http.answers import Answer, StreamedAnswer, TypedAnswer
from shoal.server.http.route import ApiRoute, Matched, RouteTable, Unmatched
from shoal.server.http.static_files import StaticFiles
from shoal.services.idempotency import (
    Claimed,
    IdempotentRequests,
    KeptAnswer,
    OtherRequest,
    StillRunning,
    record_key,
)
from shoal.services.store_errors import StoreBusy, UnknownCrawl

log = logging.getLogger(__name__)

Scope: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]

BODY_TIMEOUT_S = 30.0  # for a client to send its body
HANDLER_TIMEOUT_S = 120.0
MAX_HEADERS = 100
MAX_HEADER_BYTES = 16 * 1024
MAX_KEY_CHARS = 255
MAX_KEPT_BYTES = 256 * 1024  # of an answer that is kept in the store
MAX_QUERY_BYTES = 16 * 1024
MAX_QUERY_FIELDS = 50

HEALTH = (b"/healthz", b"/readyz")
TEXT = b"text/plain; charset=utf-8"
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
# An answer of the API that a browser is made to open as a page runs nothing and loads nothing.
API_POLICY = b"default-src 'none'; frame-ancestors 'none'; sandbox"


class AppServer(Protocol):
    """The part of a server that the application itself needs; handlers get all of it."""

    @property
    def gate(self) -> AccessGate: ...

    async def is_ready(self) -> bool: ...

    def open_idempotency(self) -> AbstractAsyncContextManager[IdempotentRequests]:
        """Open the answers that are kept in the store."""


class App:
    def __init__(
        self, server: AppServer, table: RouteTable, pages: StaticFiles, places: RequestPlaces | None = None
    ) -> None:
        self._server = server
        self._table = table
        self._pages = pages
        self._places = places or RequestPlaces()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # lifespan is not used; a websocket is closed
        method = scope["method"]
        with ExitStack() as held:
            try:
                answer = await self._answer(scope, receive, held)
            except ApiError as error:
                answer = problem(error)
            except Exception:  # a bug of ours must not end the server, nor be shown to a client
                log.exception("api.failed", extra={"method": method, "path": scope["path"][:200]})
                answer = problem(ApiError(500, "internal", "a bug: the log of the server has the details"))
            await send_answer(answer, receive, send, head_only=method == "HEAD")

    async def _answer(self, scope: Scope, receive: Receive, held: ExitStack) -> Answer:
        """Return the answer to a request; its places are `held` until it has been sent."""
        headers = self._read_head(scope)
        self._server.gate.check_source(headers)
        method, raw_path = scope["method"], scope["raw_path"]
        if raw_path in HEALTH and method in ("GET", "HEAD"):
            return await self._health(raw_path, held)
        if (page := self._pages.find(method, raw_path)) is not None:
            return page
        client = scope.get("client")
        caller = self._server.gate.identify(headers, client[0] if client else "")
        found = self._table.find(method, raw_path)
        if isinstance(found, Unmatched):
            refuse_path(found)
        self._server.gate.admit(caller, found.route, headers)
        held.enter_context(self._places.hold(caller.digest))
        answer = await self._run(found, scope, headers, caller, receive)
        if isinstance(answer, StreamedAnswer):
            held.enter_context(self._places.hold_stream(caller.digest))
        return answer

    async def _health(self, raw_path: bytes, held: ExitStack) -> Answer:
        if raw_path == b"/healthz":
            return Answer(200, b"alive\n", TEXT)
        held.enter_context(self._places.hold(""))  # the store may take seconds to answer
        if not await self._server.is_ready():
            return Answer(503, b"the store is unavailable\n", TEXT)
        return Answer(200, b"ready\n", TEXT)

    def _read_head(self, scope: Scope) -> dict[str, str]:
        if len(scope["headers"]) > MAX_HEADERS:
            raise ApiError(431, "too_many_headers", f"send at most {MAX_HEADERS} headers")
        # h11 limits what is incomplete; headers that arrive in one piece are counted here.
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            raise ApiError(431, "headers_too_large", f"send at most {MAX_HEADER_BYTES:,} bytes of headers")
        return read_headers(scope["headers"])

    async def _run(
        self, found: Matched, scope: Scope, headers: Mapping[str, str], caller: Caller, receive: Receive
    ) -> Answer:
        route = found.route
        params = decode_params(route, found.values, scope["query_string"])
        arguments: list[object] = [self._server, params]
        if route.body is not None:
            arguments.append(decode_body(route, await read_body(route, headers, receive)))
        else:
            refuse_body(headers)
        key = headers.get("idempotency-key", "") if route.changes and route.kept else ""
        if not key:
            return await self._handle(route, arguments, caller)
        request = request_digest(scope, arguments)
        return await self._once(key, request, caller, partial(self._handle, route, arguments, caller))

    async def _once(
        self, key: str, request: str, caller: Caller, handle: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """Carry out a request, or return the answer of the first one with the same key."""
        if len(key) > MAX_KEY_CHARS:
            raise ApiError(400, "bad_header", f"Idempotency-Key may have at most {MAX_KEY_CHARS} characters")
        async with self._server.open_idempotency() as requests:
            found = await requests.claim(record_key(caller.digest, key), request, time.time())
            match found:
                case KeptAnswer():
                    headers = ((b"idempotency-replayed", b"true"),)
                    return Answer(found.status, found.body, found.content_type, headers)
                case StillRunning():
                    raise ApiError(
                        409, "still_running", "the first request with this key still runs", retry_after_s=2.0
                    )
                case OtherRequest():
                    raise ApiError(422, "key_reused", "this Idempotency-Key was used for another request")
                case Claimed():
                    return await keep_answer(requests, found, request, handle)

    async def _handle(self, route: ApiRoute, arguments: list[object], caller: Caller) -> Answer:
        extra = {"caller": caller} if "caller" in route.hints else {}
        try:
            async with asyncio.timeout(HANDLER_TIMEOUT_S):
                result = await route.handler(*arguments, **extra)
        except TimeoutError:
            raise ApiError(
                503, "too_slow", "the store takes too long to answer", retry_after_s=10.0
            ) from None
        except ShoalError as error:
            raise translated(error) from None
        if isinstance(result, Answer):
            return result
        if isinstance(result, TypedAnswer):
            return Answer(route.status, encode_json(result.value), headers=result.headers)
        return Answer(route.status, encode_json(result))


async def keep_answer(
    requests: IdempotentRequests, claimed: Claimed, request: str, handle: Callable[[], Awaitable[Answer]]
) -> Answer:
    """Carry out a request and keep its answer; one that failed on our side may be repeated.

    So may one with a very long answer, which is a list of thousands of seeds: those are added once anyway.
    """
    try:
        answer = await handle()
    except ApiError as error:
        answer = problem(error)
    except BaseException:
        await requests.release(claimed)
        raise
    if answer.status >= 500 or answer.status in (409, 429) or len(answer.body) > MAX_KEPT_BYTES:
        await requests.release(claimed)
    else:
        kept = KeptAnswer(
            request=request,
            at=time.time(),
            status=answer.status,
            body=answer.body,
            content_type=answer.content_type,
        )
        await requests.keep(claimed, kept)
    return answer


def request_digest(scope: Scope, arguments: Sequence[object]) -> str:
    """Return what makes two requests the same: method, path, query and body."""
    sent = (scope["method"], scope["raw_path"], scope["query_string"], *arguments[1:])
    return hashlib.sha256(msgspec.msgpack.encode(sent)).hexdigest()


def translated(error: ShoalError) -> ApiError:
    """Return the answer to an error of a service."""
    text = str(error)
    match error:
        case UnknownCrawl():
            return ApiError(404, "no_such_crawl", text)
        case StoreBusy():
            return ApiError(409, "store_busy", text)
        case Unavailable():
            return ApiError(503, "store_unavailable", text, retry_after_s=5.0)
        case Interrupted():
            return ApiError(503, "interrupted", text, retry_after_s=5.0)
        case Lost():
            return ApiError(409, "lost", text)
        case Rejected() | Misconfigured():
            return ApiError(422, "not_possible", text)
    return ApiError(422, "not_possible", text)


def refuse_path(found: Unmatched) -> NoReturn:
    if not found.allowed:
        raise ApiError(404, "no_such_path", "there is no such path: /openapi.json lists all of them")
    methods = ", ".join(found.allowed)
    raise ApiError(405, "method_not_allowed", f"this path answers {methods}", allow=methods)


def decode_params(route: ApiRoute, values: Mapping[str, str], query: bytes) -> Any:
    """Return path and query parameters as the route's type; raise 400 with the field that is wrong."""
    if len(query) > MAX_QUERY_BYTES:
        raise ApiError(414, "query_too_long", f"the query has more than {MAX_QUERY_BYTES:,} bytes")
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=MAX_QUERY_FIELDS,
        )
    except ValueError:  # not ASCII, not UTF-8 once decoded, no `=`, too many
        raise ApiError(400, "bad_query", "the query is not NAME=VALUE&NAME=VALUE in UTF-8") from None
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given or name in values:
            raise ApiError(400, "bad_query", f"give {name[:100]!r} once")
        given[name] = value
    try:
        return msgspec.convert({**values, **given}, route.params, strict=False)
    except msgspec.ValidationError as error:
        raise ApiError(400, "bad_parameter", str(error)[:500]) from None


async def read_body(route: ApiRoute, headers: Mapping[str, str], receive: Receive) -> bytes:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "not_json", "send the body as Content-Type: application/json")
    if headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
        raise ApiError(415, "compressed_body", "send the body without Content-Encoding")
    return await _receive_all(headers, receive, limit=route.max_body_bytes)


def refuse_body(headers: Mapping[str, str]) -> None:
    """Raise if a request announces a body that its route does not take. Nothing waits for that body."""
    if headers.get("content-length", "0").strip("0") or "transfer-encoding" in headers:
        raise ApiError(413, "body_too_large", "this request takes no body")


async def _receive_all(headers: Mapping[str, str], receive: Receive, *, limit: int) -> bytes:
    too_large = ApiError(413, "body_too_large", f"the body may have at most {limit:,} bytes")
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ApiError(400, "disconnected", "the client went away")
                size += len(message.get("body", b""))
                if size > limit:
                    raise too_large
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise ApiError(408, "body_too_slow", f"send the body within {BODY_TIMEOUT_S:g} seconds") from None


def decode_body(route: ApiRoute, body: bytes) -> Any:
    """Return a body as the route's type; raise 400 with the place that is wrong."""
    try:
        refuse_duplicates(body)
        return msgspec.json.decode(body, type=route.body)
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise ApiError(400, "bad_body", str(error)[:500] or "the body is not valid JSON") from None
    except RecursionError:
        raise ApiError(400, "bad_body", "the body is nested too deeply") from None


def refuse_duplicates(body: bytes) -> None:
    """Raise `ValueError` for JSON that two parsers may read differently: repeated keys, NaN, Infinity."""

    def pairs(found: list[tuple[str, object]]) -> None:
        if len(found) != len({name for name, _ in found}):
            raise ValueError("an object has the same key twice")

    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    json.loads(body, object_pairs_hook=pairs, parse_constant=constant)


def encode_json(value: object) -> bytes:
    return msgspec.json.encode(value)


def problem(error: ApiError) -> Answer:
    phrase = HTTPStatus(error.status).phrase
    found = Problem(
        title=phrase,
        status=error.status,
        detail=error.detail,
        code=error.code,
        retry_after_s=None if error.retry_after_s is None else round(error.retry_after_s, 3),
    )
    headers = []
    if error.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="shoal"'))
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_s))))
    if error.allow:
        headers.append((b"allow", error.allow.encode()))
    if error.status in (408, 413):  # the rest of the body is not read
        headers.append((b"connection", b"close"))
    return Answer(error.status, encode_json(found), b"application/problem+json", tuple(headers))


async def send_answer(answer: Answer, receive: Receive, send: Send, *, head_only: bool) -> None:
    headers = [
        (b"content-type", answer.content_type),
        (b"content-security-policy", answer.policy or API_POLICY),
        *SECURITY_HEADERS,
        *answer.headers,
    ]
    if not any(name == b"cache-control" for name, _ in answer.headers):
        headers.append((b"cache-control", b"no-store"))
    if isinstance(answer, StreamedAnswer):
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if not head_only:
            await _send_stream(answer, receive, send)
        await send({"type": "http.response.body", "body": b""})
        return
    headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head_only else answer.body})


async def _send_stream(answer: StreamedAnswer, receive: Receive, send: Send) -> None:
    """Send the parts of a stream until it ends or the client goes away."""

    async def pump() -> None:
        async with answer.open() as parts:
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})

    async with asyncio.TaskGroup() as group:
        sending = group.create_task(pump(), name="api.stream")
        leaving = group.create_task(_wait_for_disconnect(receive), name="api.disconnect")
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        sending.cancel()
        leaving.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
