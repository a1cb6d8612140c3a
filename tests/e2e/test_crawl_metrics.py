"""`shoal crawl --metrics`: what a crawl that runs in one process tells Prometheus."""

import time
import urllib.error
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.e2e.command import TIMEOUT, ended, started
from tests.servers.process import free_port

PAGES = 12


def asked(port: int, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError):
        return None  # not listening yet


def test_a_crawl_serves_its_metrics_while_it_runs(shop: str, tmp_path: Path) -> None:
    port = free_port()
    slow = ("--allow-private", "--rate", "5", "--max-pages", str(PAGES), "--quiet")
    with started("crawl", shop, *slow, "--metrics", str(port), cwd=tmp_path) as crawl:
        deadline, told = time.monotonic() + TIMEOUT, ""
        while crawl.poll() is None and "scraper_fetch_duration_seconds_count 3.0" not in told:
            told = asked(port, "/metrics") or told
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert asked(port, "/readyz") == "ready\n"
        assert asked(port, "/healthz") == "alive\n"
        assert ended(crawl).code == 0
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(told)
        for sample in family.samples
    }
    assert values["scraper_domains_active"] == 1
    assert values["scraper_queue_depth"] >= 0
    assert values["shoal_store_up"] == 1
