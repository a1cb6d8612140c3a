"""Requests made up from the OpenAPI document: no answer is 500 or above.

`make api-fuzz` sends 20,000 of them; `make test` a few hundred. The server runs in another thread, on a
store with a crawl, so that handlers find something.
"""

import asyncio
import math
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from tests.integration.server.running import RunningServer, running_server

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.model.api.roles import Role
from shoal.model.settings import CrawlSettings, Settings
from shoal.server.http.openapi import openapi_document
from shoal.server.routes.table import ROUTES

REQUESTS = int(os.environ.get("API_FUZZ_REQUESTS", "200"))
ENDLESS = {"follow_events", "follow_summaries"}
# They start processes, or take seconds by design: sent a few times only.
SLOW = {"submit_crawl", "compare_generations", "show_report", "download_items", "scrape_page"}
SLOW_SHARE = 0.002


class Running(threading.Thread):
    """A server in a thread with an event loop: schemathesis sends requests and waits."""

    def __init__(self, folder: Path, options: Settings) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._settings = options
        self._ending: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ready = threading.Event()
        self.server: RunningServer

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._ending, self._loop = asyncio.Event(), asyncio.get_running_loop()
        async with running_server(
            self._folder, settings=self._settings, spiders=self._folder, rate_per_s=1e6
        ) as server:
            self.server = server
            self.ready.set()
            await self._ending.wait()

    def end(self) -> None:
        assert self._ending is not None
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._ending.set)
        self.join(30)


@contextmanager
def fuzzed_server(folder: Path) -> Iterator[RunningServer]:
    options = Settings(store=str(folder / "store"), crawl=CrawlSettings(allow_private=False))
    running = Running(folder, options)
    running.start()
    assert running.ready.wait(30)
    try:
        yield running.server
    finally:
        running.end()


def crawled(folder: Path) -> None:
    """Leave a finished crawl with items and dead letters."""
    with open_shop(Shop(categories=1), latency=0.001) as shop:
        command = (
            sys.executable,
            "-m",
            "shoal",
            "crawl",
            shop,
            "--allow-private",
            "--rate=0",
            "--crawl=shop",
        )
        environment = {**os.environ, "SHOAL_RETRY_MAX_RETRIES": "0", "SHOAL_STORE": str(folder / "store")}
        subprocess.run(
            (*command, "--quiet", "--max-pages=20"), check=True, env=environment, cwd=folder, timeout=90
        )


@pytest.mark.timeout(7200)
def test_no_request_made_up_from_the_document_is_answered_with_500(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawled(tmp_path)
    schema = schemathesis.openapi.from_dict(msgspec.to_builtins(openapi_document(ROUTES)))
    schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    counts: Counter[int] = Counter()
    failures: list[str] = []
    with fuzzed_server(tmp_path) as server:
        headers = {"Authorization": f"Bearer {server.tokens[Role.ADMIN]}"}
        base = f"http://127.0.0.1:{server.port}"
        slow = sum(route.name in SLOW for route in ROUTES)
        few = max(1, round(REQUESTS * SLOW_SHARE))
        each = math.ceil((REQUESTS - few * slow) / (len(ROUTES) - slow - len(ENDLESS)))
        for operation in schema.get_all_operations():
            assert isinstance(operation, Ok)
            found = operation.ok()
            name = found.definition.raw["operationId"]
            if name in ENDLESS:
                continue
            number = few if name in SLOW else each
            _send_many(found, number, base, headers, counts, failures)
            with capsys.disabled():  # it may take half an hour
                print(
                    f"{name}: {sum(counts.values()):,} requests, {dict(sorted(counts.items()))}", flush=True
                )
    with capsys.disabled():
        print(f"\n{sum(counts.values()):,} requests to {len(ROUTES)} routes: {dict(sorted(counts.items()))}")
    assert sum(counts.values()) >= REQUESTS * 0.99  # a strategy may run out of different requests
    assert failures == []


def _send_many(
    operation: Any, number: int, base: str, headers: dict[str, str], counts: Counter[int], failures: list[str]
) -> None:
    @seed(20261118)
    @settings(
        max_examples=number,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=_both_modes(operation))
    def send(case: Any) -> None:
        case.headers = {**(case.headers or {}), **headers}
        keeps = case.method.upper() != "DELETE"
        if keeps and "crawl" in (case.path_parameters or {}) and sum(counts.values()) % 2:
            case.path_parameters["crawl"] = "shop"  # one that exists: made-up names end at 404
        answer = case.call(base_url=base, timeout=130)
        counts[answer.status_code] += 1
        if answer.status_code >= 500:
            failures.append(
                f"{case.method} {answer.request.url} {answer.request.body!r}: {answer.text[:300]}"
            )

    send()


def _both_modes(operation: Any) -> Any:
    """Return requests that fit the document, and requests that do not."""
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    return strategies.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))
