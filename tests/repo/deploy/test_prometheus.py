"""Prometheus understands its files, and every query in them finds what workers tell."""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.command import NO_RETRIES, shoal
from tests.fleet_crawl import Fleet
from tests.servers.process import free_port
from tests.servers.prometheus import Prometheus, program, prometheus
from tests.servers.proxies import Login, Microsocks, proxy_server
from tests.servers.redis import valkey

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.model.alert import AlertKind
from shoal.model.settings import AlertSettings
from shoal.services.alerts.stalls import BEHIND
from shoal.stores.contract.fleet import MAX_UNPARSED_PAGES, MAX_UNWRITTEN_PAGES

DEPLOY = Path(__file__).parents[3] / "deploy"
FOUND_S = 60.0
SELECTOR = re.compile(r"(?:shoal|scraper)_[a-z_]+(?:\{[^}]*\})?")


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_and_its_rules_are_understood() -> None:
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")


def test_alerts_are_raised_when_they_should_be_and_only_then() -> None:
    promtool("test", "rules", DEPLOY / "prometheus" / "rules_test.yml")


THRESHOLDS = {  # the setting of `alerts`, and what the rule compares with: its default
    AlertKind.QUEUE_DEPTH: ("queue_depth", "> 100000"),
    AlertKind.SUCCESS_RATE: ("success", "< 0.85"),
    AlertKind.HOST_FAILING: ("host_success", "> 0.5"),  # failures, so 1 minus the setting
    AlertKind.LATENCY: ("p95", "> 5"),
    AlertKind.DEAD_LETTERS: ("dead_letters", "> 0.05"),
    AlertKind.ERROR_BUDGET: ("error_budget", "> 0.05"),
    AlertKind.BANDWIDTH: ("bandwidth", "> 0.8"),
    AlertKind.STORE_FULL: ("store_memory", "> 0.9"),
}
CRITICAL = {
    AlertKind.STAGE_STALLED,
    AlertKind.NO_WORKER,
    AlertKind.EXITS_DOWN,
    AlertKind.STORE_FULL,
    AlertKind.STORE_UNAVAILABLE,
    AlertKind.YIELD_DROPPED,
}


def test_every_alert_of_shoal_is_a_rule_with_the_same_name_level_and_threshold() -> None:
    by_name = {rule["alert"]: rule for rule in all_rules()}
    named = {f"Shoal{kind.value.title().replace('_', '')}": kind for kind in AlertKind}
    assert set(named) <= set(by_name)
    assert {rule["labels"].get("kind") for rule in by_name.values()} == {*map(str, AlertKind), None}
    for name, kind in named.items():
        rule = by_name[name]
        assert rule["labels"]["kind"] == kind.value
        assert (rule["labels"]["severity"] == "critical") is (kind in CRITICAL), name
    settings = AlertSettings()
    for kind, (setting, compared) in THRESHOLDS.items():
        limit = getattr(settings, setting)
        assert float(compared[2:]) == (1 - limit if kind is AlertKind.HOST_FAILING else limit)
        expression = by_name[f"Shoal{kind.value.title().replace('_', '')}"]["expr"]
        assert re.search(rf"{re.escape(compared)}(?![\d.])", expression), kind
        if "increase" in expression or kind is AlertKind.HOST_FAILING:
            assert f">= {settings.min_attempts}" in expression
    behind = by_name["ShoalStageBehind"]["expr"]
    assert f"> {MAX_UNPARSED_PAGES * BEHIND['parse']:.0f} or" in behind
    assert behind.strip().endswith(f"> {MAX_UNWRITTEN_PAGES * BEHIND['sink']:.0f}")


def test_every_alert_is_documented() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (DEPLOY.parent / "docs" / "alerts.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(AlertKind)


@pytest.mark.timeout(240)
async def test_every_query_finds_what_a_real_crawl_tells(tmp_path: Path) -> None:
    """A worker crawls a small shop through a real proxy, and a real Prometheus scrapes it."""
    folder, port = tmp_path / "work", free_port()
    folder.mkdir()
    (tmp_path / "prometheus").mkdir()
    async with (
        valkey(tmp_path / "server", "--maxmemory", "1gb") as server,
        proxy_server(Microsocks, tmp_path / "proxy", Login()) as proxy,
    ):
        env = {
            "SHOAL_PROXY_LIST": f"{proxy.line} kind=isp price_gb=2.5",
            "SHOAL_ALERTS_EVERY": "1",
            **NO_RETRIES,
        }
        with (
            open_shop(Shop(categories=1), latency=0.001) as shop,
            Fleet(server.dsn, folder, settings=env) as fleet,
        ):
            options = ("--rate", "4", "--crawl", "shop", "--out", "items.jsonl")
            submitted = shoal("submit", shop, *options, "--allow-private", cwd=folder, env=fleet.env)
            assert submitted.code == 0, submitted.err
            fleet.start("--metrics", str(port))
            async with prometheus(tmp_path / "prometheus", f"127.0.0.1:{port}") as scraped:
                await until_found(scraped, 'shoal_attempts_total{outcome="dead"} > 0', fleet)
                await until_found(scraped, "shoal_fleet_processes > 0", fleet)
                await until_found(scraped, "shoal_exit_cost > 0", fleet)
                await until_found(scraped, "rate(shoal_host_attempts_total[5m]) > 0", fleet)
                for query in panels():
                    await until_found(scraped, query.replace("$crawl", ".*"), fleet)
                for selector in {found for query in rules() for found in SELECTOR.findall(query)}:
                    await until_found(scraped, selector, fleet)


async def until_found(scraped: Prometheus, query: str, fleet: Fleet) -> None:
    """Wait until a query has an answer: some metrics appear only after a while."""
    try:
        async with asyncio.timeout(FOUND_S):
            while not await scraped.ask(query):  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise AssertionError(f"nothing found: {query}\n{fleet.logs()[-3000:]}") from None


def panels() -> Sequence[str]:
    board = json.loads((DEPLOY / "grafana" / "fleet.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_the_dashboard_answers_the_questions_of_the_night() -> None:
    board = json.loads((DEPLOY / "grafana" / "fleet.json").read_text())
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows == ["Why is it slow", "Throughput", "Latency", "Failures", "Hosts", "Exits and cost"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def all_rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"]:
        yield from group["rules"]


def rules() -> Iterator[str]:
    yield from (rule["expr"] for rule in all_rules())
