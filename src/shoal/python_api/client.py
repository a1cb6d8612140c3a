"""`shoal.Client`: the HTTP API of `shoal serve` from a Python program, typed and without dependencies."""

import http.client
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from shoal.model.api.control import (
    ChangedLetters,
    DeletedCrawl,
    HostChange,
    PausedCrawls,
    ReleaseChoice,
    ReleasedCrawl,
    RobotsRefreshed,
)
from shoal.model.api.crawls import CrawlInfo, CrawlPage, StoreSnapshot, WorkerList
from shoal.model.api.dead_letters import DeadLetterInfo, DeadLetterPage
from shoal.model.api.hosts import HostInfo, HostLevel, HostList, LevelChange
from shoal.model.api.listing import (
    CrawlDiff,
    CrawlForecast,
    ExitInfo,
    ExitList,
    ExitRest,
    StoredItemPage,
    UrlHistories,
    UrlInfo,
    UrlPage,
    VerifyResult,
)
from shoal.model.api.live import AlertLines
from shoal.model.api.problem import ApiError, Problem
from shoal.model.api.scaling import ScaleList
from shoal.model.api.schedules import ChangedSchedule, NewSchedule, ScheduleInfo, ScheduleList
from shoal.model.api.submission import AddedSeeds, CrawlSubmission, ScrapedPage, SubmittedCrawl
from shoal.model.api.webhooks import NewWebhook, RemovedWebhook, WebhookInfo, WebhookList

T = TypeVar("T")

MAX_ATTEMPTS = 4
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
PART_BYTES = 256 * 1024
AGAIN = frozenset({429, 503})


class ApiClient:
    """Calls the API of a server. Methods raise `Client.Error`, whose text says what to change.

    A request that gets no answer is sent again with the same idempotency key, so that it is carried out once.
    One object serves one thread.
    """

    Error = ApiError

    def __init__(self, url: str, token: str, *, timeout: float = 130.0) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the address of a server, such as http://127.0.0.1:8787")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._path = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    def __repr__(self) -> str:
        return f"Client({self._connection.host}:{self._connection.port})"  # without the token

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def status(self) -> StoreSnapshot:
        """Return the store at this moment: crawls, workers, slow hosts, bottlenecks."""
        return self._get("/api/v1/status", StoreSnapshot)

    def workers(self) -> WorkerList:
        return self._get("/api/v1/workers", WorkerList)

    def crawls(self) -> Iterator[CrawlInfo]:
        """Yield every crawl of the store, by name."""
        return self._pages("/api/v1/crawls", CrawlPage, "crawls")

    def crawl(self, name: str) -> CrawlInfo:
        return self._get(f"/api/v1/crawls/{_name(name)}", CrawlInfo)

    def submit(self, submission: CrawlSubmission | None = None, **fields: Any) -> SubmittedCrawl:
        """Submit a crawl: `client.submit(urls=["https://a.example/"], max_pages=100)`."""
        body = submission or msgspec.convert(fields, CrawlSubmission)
        return self._send("POST", "/api/v1/crawls", SubmittedCrawl, body)

    def wait(self, name: str, *, every: float = 1.0, timeout: float | None = None) -> CrawlInfo:
        """Wait until a crawl has finished, and return it; raise `TimeoutError` after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self.crawl(name)
            if found.finished:
                return found
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"crawl {name} has not finished: {found.counts}")
            time.sleep(every)

    def add_seeds(self, crawl: str, urls: list[str]) -> AddedSeeds:
        return self._send("POST", f"/api/v1/crawls/{_name(crawl)}/seeds", AddedSeeds, {"urls": urls})

    def pause(self, crawl: str) -> PausedCrawls:
        return self._send("POST", f"/api/v1/crawls/{_name(crawl)}/pause", PausedCrawls)

    def resume(self, crawl: str) -> PausedCrawls:
        return self._send("POST", f"/api/v1/crawls/{_name(crawl)}/resume", PausedCrawls)

    def release(self, crawl: str, pattern: str = "") -> ReleasedCrawl:
        """Queue the URLs that a crawl holds back: of one pattern, or all of them."""
        body = ReleaseChoice(pattern=pattern)
        return self._send("POST", f"/api/v1/crawls/{_name(crawl)}/release", ReleasedCrawl, body)

    def pause_all(self) -> PausedCrawls:
        """Start no new requests of any crawl of the store."""
        return self._send("POST", "/api/v1/pause", PausedCrawls)

    def resume_all(self) -> PausedCrawls:
        return self._send("POST", "/api/v1/resume", PausedCrawls)

    def delete(self, crawl: str) -> DeletedCrawl:
        return self._send("DELETE", f"/api/v1/crawls/{_name(crawl)}", DeletedCrawl)

    def urls(
        self, crawl: str, *, state: str | None = None, host: str = "", match: str = ""
    ) -> Iterator[UrlInfo]:
        query = {"state": state, "host": host, "match": match}
        return self._pages(f"/api/v1/crawls/{_name(crawl)}/urls", UrlPage, "urls", query)

    def items(self, crawl: str, *, newest: bool = False, contains: str = "") -> Iterator[dict[str, Any]]:
        """Yield the items of a crawl that are stored now."""
        query = {"newest": "true" if newest else "", "contains": contains}
        return self._pages(f"/api/v1/crawls/{_name(crawl)}/items", StoredItemPage, "items", query)

    def download(
        self,
        crawl: str,
        path: str | Path,
        *,
        form: Literal["jsonl", "csv", "sqlite", "parquet", "warc.gz"] = "jsonl",
    ) -> Path:
        """Write the items of a crawl, or its pages as WARC, to a file."""
        return self._write(f"/api/v1/crawls/{_name(crawl)}/download?format={form}", Path(path))

    def trace(self, url: str, *, crawl: str | None = None) -> list[dict[str, Any]]:
        return self._get("/api/v1/trace", UrlHistories, {"url": url, "crawl": crawl}).traces

    def diff(self, crawl: str, *, before: int | None = None, after: int | None = None) -> dict[str, Any]:
        """Return what changed between two generations of a crawl; by default the last two."""
        path = f"/api/v1/crawls/{_name(crawl)}/diff"
        return self._get(path, CrawlDiff, {"from": before, "to": after}).diff

    def verify(self, crawl: str | None = None, *, deep: bool = False) -> VerifyResult:
        """Prove that nothing was lost and nothing was duplicated; `deep` reads every archived page."""
        query = {"crawl": crawl, "deep": "true" if deep else None}
        return self._get("/api/v1/verify", VerifyResult, query)

    def plan(self, crawl: str | None = None, **numbers: float) -> dict[str, Any]:
        """Forecast a crawl; or `pages`, `hosts`, `rate`, `concurrency`; or what `per_day` pages need."""
        return self._get("/api/v1/plan", CrawlForecast, {"crawl": crawl, **numbers}).plan

    def report(self, path: str | Path, *, crawl: str | None = None) -> Path:
        """Write a page with charts from the fetch log to a file."""
        return self._write(_with_query("/api/v1/report", {"crawl": crawl}), Path(path))

    def alerts(self) -> AlertLines:
        return self._get("/api/v1/alerts", AlertLines)

    def autoscale(self, *, min: int = 1, max: int = 16, drain_s: float = 300.0) -> ScaleList:
        """Return how many workers each role and pool needs, and why."""
        return self._get("/api/v1/autoscale", ScaleList, {"min": min, "max": max, "drain_s": drain_s})

    def metrics(self) -> str:
        """Return the figures of the store as Prometheus reads them."""
        return self._open("GET", "/metrics", b"", {}).read().decode()

    def openapi(self) -> dict[str, Any]:
        """Return the description of every route."""
        return self._get("/openapi.json", dict[str, Any])

    def events(self) -> Iterator[StoreSnapshot]:
        """Yield the store at this moment, every 1.5 seconds; close the client to end it."""
        response = self._open("GET", "/api/v1/events", b"", {})
        while line := response.readline():
            if line.startswith(b"data:"):
                yield msgspec.json.decode(line.removeprefix(b"data:"), type=StoreSnapshot)

    def hosts(self) -> HostList:
        return self._get("/api/v1/hosts", HostList)

    def host(self, host: str) -> HostInfo:
        return self._get(f"/api/v1/hosts/{_name(host)}", HostInfo)

    def change_host(self, host: str, **fields: Any) -> HostInfo:
        """Change what is given: `rate`, `concurrency`, `paused`, `rest_s`; or `reset=True`."""
        return self._send(
            "PATCH", f"/api/v1/hosts/{_name(host)}", HostInfo, msgspec.convert(fields, HostChange)
        )

    def refresh_robots(self, host: str) -> RobotsRefreshed:
        return self._send("POST", f"/api/v1/hosts/{_name(host)}/refresh-robots", RobotsRefreshed)

    def level(self, host: str) -> HostLevel:
        """Return how the pages of a host are fetched: what was set, and what was learned."""
        return self._get(f"/api/v1/hosts/{_name(host)}/level", HostLevel)

    def set_level(self, host: str, level: Literal["auto", "plain", "impersonate", "browser"]) -> HostLevel:
        return self._send("PUT", f"/api/v1/hosts/{_name(host)}/level", HostLevel, LevelChange(level=level))

    def reset_level(self, host: str) -> HostLevel:
        """Forget what was learned about the level of a host."""
        return self._send("DELETE", f"/api/v1/hosts/{_name(host)}/level", HostLevel)

    def dead_letters(self, **query: Any) -> Iterator[DeadLetterInfo]:
        """Yield dead letters, latest first; `crawl`, `host`, `match`, `newer_s` and others choose."""
        return self._pages("/api/v1/dead-letters", DeadLetterPage, "dead_letters", query)

    def dead_letter(self, trace: str) -> list[DeadLetterInfo]:
        """Return the dead letters with a trace id, one per crawl."""
        return self._get(f"/api/v1/dead-letters/{_name(trace)}", DeadLetterPage).dead_letters

    def replay(self, **choice: Any) -> int:
        """Put dead letters back into the queue; return how many. `all=True`: every one."""
        return self._send("POST", "/api/v1/dead-letters/replay", ChangedLetters, choice).count

    def purge(self, **choice: Any) -> int:
        """Delete dead letters; return how many."""
        return self._send("POST", "/api/v1/dead-letters/purge", ChangedLetters, choice).count

    def exits(self) -> list[ExitInfo]:
        return self._get("/api/v1/exits", ExitList).exits

    def rest_exit(self, exit: str, seconds: float) -> ExitInfo:
        """Use an exit no longer for some seconds; 0: use it again at once."""
        return self._send("POST", f"/api/v1/exits/{_name(exit)}/rest", ExitInfo, ExitRest(seconds=seconds))

    def schedules(self) -> list[ScheduleInfo]:
        return self._get("/api/v1/schedules", ScheduleList).schedules

    def add_schedule(self, **fields: Any) -> ChangedSchedule:
        """Add a schedule: `name`, `cron` or `every_s`, and `crawl`, as for `submit`."""
        new = msgspec.convert(fields, NewSchedule)
        return self._send("POST", "/api/v1/schedules", ChangedSchedule, new)

    def pause_schedule(self, name: str) -> ChangedSchedule:
        return self._send("POST", f"/api/v1/schedules/{_name(name)}/pause", ChangedSchedule)

    def resume_schedule(self, name: str) -> ChangedSchedule:
        return self._send("POST", f"/api/v1/schedules/{_name(name)}/resume", ChangedSchedule)

    def remove_schedule(self, name: str) -> ChangedSchedule:
        return self._send("DELETE", f"/api/v1/schedules/{_name(name)}", ChangedSchedule)

    def webhooks(self) -> list[WebhookInfo]:
        return self._get("/api/v1/webhooks", WebhookList).webhooks

    def add_webhook(self, **fields: Any) -> WebhookInfo:
        """Add a webhook: `name`, `url`, `events`; its `secret` is in this answer only."""
        return self._send("POST", "/api/v1/webhooks", WebhookInfo, msgspec.convert(fields, NewWebhook))

    def remove_webhook(self, name: str) -> RemovedWebhook:
        return self._send("DELETE", f"/api/v1/webhooks/{_name(name)}", RemovedWebhook)

    def scrape(
        self,
        url: str,
        *,
        format: Literal["markdown", "html", "text", "json"] = "markdown",
        fields: Mapping[str, str] | None = None,
    ) -> ScrapedPage:
        """Fetch one page now. `fields`: name and CSS, for the format json."""
        body = {"url": url, "format": format, "fields": dict(fields or {})}
        return self._send("POST", "/api/v1/scrape", ScrapedPage, body)

    def _get(self, path: str, kind: type[T], query: Mapping[str, Any] | None = None) -> T:
        return self._answer("GET", _with_query(path, query or {}), kind, b"", {})

    def _write(self, path: str, file: Path) -> Path:
        response = self._open("GET", path, b"", {})
        with file.open("wb") as opened:
            while part := response.read(PART_BYTES):
                opened.write(part)
        return file

    def _send(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        headers = {"Idempotency-Key": secrets.token_urlsafe(16)}
        encoded = b""
        if body is not None:
            encoded = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        return self._answer(method, path, kind, encoded, headers)

    def _pages(
        self, path: str, kind: type[Any], field: str, query: Mapping[str, Any] | None = None
    ) -> Iterator[Any]:
        cursor: str | None = ""
        while cursor is not None:
            page = self._get(path, kind, {**(query or {}), "cursor": cursor})
            yield from getattr(page, field)
            cursor = page.next_cursor

    def _answer(self, method: str, path: str, kind: type[T], body: bytes, headers: Mapping[str, str]) -> T:
        return msgspec.json.decode(self._open(method, path, body, headers).read(), type=kind)

    def _open(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """Send a request until it is answered, at most four times; raise `ApiError` for a problem."""
        for attempt in range(MAX_ATTEMPTS):
            last = attempt == MAX_ATTEMPTS - 1
            try:
                self._connection.request(
                    method, f"{self._path}{path}", body or None, {**self._headers, **headers}
                )
                response = self._connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if last:
                    raise ApiError(503, "no_answer", f"the server does not answer: {error}") from None
                time.sleep(FIRST_WAIT_S * 2**attempt)
                continue
            if response.status < 400:
                return response
            problem = read_problem(response.status, response.read())
            if problem.status not in AGAIN or last:
                raise problem
            wait = problem.retry_after_s or FIRST_WAIT_S * 2**attempt
            if wait > LONGEST_WAIT_S:
                raise problem
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")


Client = ApiClient


def read_problem(status: int, body: bytes) -> ApiError:
    """Return the error that an answer describes."""
    try:
        found = msgspec.json.decode(body, type=Problem)
    except msgspec.MsgspecError:
        return ApiError(status, "unknown", body[:200].decode(errors="replace") or f"status {status}")
    return ApiError(status, found.code, found.detail, retry_after_s=found.retry_after_s)


def _name(text: str) -> str:
    return quote(text, safe="")


def _with_query(path: str, query: Mapping[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path
