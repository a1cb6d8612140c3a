"""`shoal demo`: what a newcomer sees first."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.command import TIMEOUT, records, shoal, surroundings

from shoal.cli.demo.shop import Shop

PRODUCTS = {product.sku for product in Shop().products.values()}

IN_A_HURRY = """
import sys
from dataclasses import replace
from shoal.cli.demo import visit
visit.SETTINGS = replace(visit.SETTINGS, crawl=replace(visit.SETTINGS.crawl, rate=0.0), retry=replace(visit.SETTINGS.retry, base=0.01))
sys.exit(visit.crawl_shop(quiet=False, json=False))
"""


@pytest.mark.slow
def test_the_demo_crawls_the_whole_shop(tmp_path: Path) -> None:
    ran = shoal("demo", "--json", cwd=tmp_path)

    assert (ran.code, ran.err) == (0, "")
    assert ran.json["counts"]["dead"] == 0
    assert ran.json["elapsed_s"] > 8
    items = records(tmp_path / ran.json["outputs"][0])
    assert {item["sku"] for item in items} == PRODUCTS
    assert len(items) == len(PRODUCTS)
    assert {path.name for path in tmp_path.iterdir()} == {"shoal-demo"}


def test_the_demo_can_be_run_again_and_prints_where_its_output_is(tmp_path: Path) -> None:
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", IN_A_HURRY],
            cwd=tmp_path,
            env=surroundings(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert "writing to ./shoal-demo, which each run replaces" in ran.stderr
        assert f"and {len(PRODUCTS)} items" in ran.stdout
        assert "shoal crawl mine.py" in ran.stdout
    assert shoal("verify", "--store", "shoal-demo", "--deep", cwd=tmp_path).code == 0
