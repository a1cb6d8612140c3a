"""`shoal plan` with the numbers that a crawl has measured."""

from pathlib import Path

import pytest
from tests.e2e.command import QUICK, shoal


def test_a_crawl_is_planned_from_its_own_measurements(shop: str, tmp_path: Path) -> None:
    limit = ("--max-pages", "10", "--quiet", "--rate", "4")
    shoal("crawl", shop, "--allow-private", *limit, cwd=tmp_path, env={"SHOAL_CRAWL_BURST": "10"})
    [crawl] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    left = crawl["counts"]["waiting"] + crawl["counts"]["delayed"]

    plan = shoal("plan", "--json", cwd=tmp_path).json
    assert (plan["pages"], plan["hosts"], plan["bounded_by"]) == (left, 1, "hosts")
    assert plan["pages_per_s"] == 4.0
    assert plan["drain_s"] == pytest.approx(left / 4)
    assert 0 < plan["latency_s"] < 10
    assert 100 < plan["page_bytes"] < 100_000
    assert "measured over 10 pages" in shoal("plan", cwd=tmp_path).out

    shoal("crawl", shop, *QUICK, "--quiet", "--crawl", "other", "--depth", "0", cwd=tmp_path)
    unclear = shoal("plan", cwd=tmp_path)
    assert (unclear.code, "choose with --crawl" in unclear.complaint) == (1, True)
