"""Prometheus understands its files, and every query in them finds what workers tell."""

import asyncio
import itertools
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from tests.servers.prometheus import program, prometheus

from shoal.engine.snapshot import WorkerStats, WorkStats
from shoal.model.failure import FailureClass
from shoal.services.inspect.status import CrawlStatus, FleetStatus, Stage, StoreStatus
from shoal.stores.contract.heartbeat import Heartbeat
from shoal.worker.http_endpoint import Endpoint

DEPLOY = Path(__file__).parents[3] / "deploy"
STATES = ("waiting", "delayed", "leased", "parsing", "done", "gone", "dead", "filtered")
ROLES = ("fetch", "parse", "sink")
LABELS = re.compile(r"\b(?:by|on) \(([a-z_, ]+)\)")
SELECTOR = re.compile(r"shoal_[a-z_]+(?:\{[^}]*\})?")


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_and_its_rules_are_understood() -> None:
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")


def test_alerts_are_raised_when_they_should_be_and_only_then() -> None:
    promtool("test", "rules", DEPLOY / "prometheus" / "rules_test.yml")


async def test_every_query_finds_metrics_and_labels_that_workers_tell(tmp_path: Path) -> None:
    server = await asyncio.start_server(worker().serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, prometheus(tmp_path, f"{host}:{port}") as scraped:
        for query in (*panels(), *rules()):
            for selector in SELECTOR.findall(query):
                told = await scraped.ask(selector.replace("$crawl", ".*"))
                assert told, f"{selector} of {query}"
                assert all(labels(query) <= series["metric"].keys() for series in told), query
        for query in panels():
            assert await scraped.ask(query.replace("$crawl", ".*")), query


def worker() -> Endpoint:
    """Answer like a worker that is still working."""
    pages = itertools.count(1)

    def figures() -> WorkerStats:
        number = next(pages)
        failures = {kind.value: number for kind in FailureClass}
        return WorkerStats(64, 16, draining=False, done={"shop": WorkStats(number, number, number, failures)})

    async def fleet() -> StoreStatus:
        crawl = CrawlStatus("shop", 8, dict.fromkeys(STATES, 1), {}, {})
        beat = Heartbeat(
            worker="w", host="m", pid=1, roles=ROLES, shoal="0", started_at=0, beaten_at=0, doing="idle"
        )
        stages = {stage: Stage(3) for stage in ROLES}
        return StoreStatus("redis://127.0.0.1", None, [crawl], FleetStatus([beat], {"shop": stages}))

    return Endpoint(figures, fleet)


def panels() -> Sequence[str]:
    board = json.loads((DEPLOY / "grafana" / "fleet.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def rules() -> Iterator[str]:
    for group in yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def labels(query: str) -> set[str]:
    """Name the labels that a query groups or joins by."""
    return {label.strip() for names in LABELS.findall(query) for label in names.split(",")}
