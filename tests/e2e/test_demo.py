"""`shoal demo`: what a newcomer sees first."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.e2e.command import TIMEOUT, ended, records, shoal, started, surroundings

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
        assert "Then: shoal demo --serve" in ran.stdout
        assert "shoal serve --store shoal-demo" in ran.stdout
    assert shoal("verify", "--store", "shoal-demo", "--deep", cwd=tmp_path).code == 0


def test_a_spider_that_serve_prints_runs_on_the_shop_as_pasted(tmp_path: Path) -> None:
    with started("demo", "--serve", "--port", "0", cwd=tmp_path) as serving:
        assert serving.stdout is not None
        lines = [serving.stdout.readline()]
        while not lines[-1].startswith("shoal crawl"):
            lines.append(serving.stdout.readline())
        pasted = (
            "".join(lines[lines.index("\n") :]).rstrip() + " --max-pages 30 --rate 0 --out items.jsonl -q\n"
        )
        folder = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        typed = subprocess.run(
            ["bash", "-e", "-c", pasted],
            cwd=tmp_path,
            env=surroundings({"PATH": folder}),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        serving.send_signal(signal.SIGINT)
        closed = ended(serving)

    assert typed.returncode == 0, typed.stderr
    items = records(tmp_path / "items.jsonl")
    assert items
    assert all(item["sku"] in PRODUCTS and float(item["price"]) > 0 for item in items)
    assert (closed.code, closed.err) == (0, "shoal: the shop is closed\n")


def test_a_port_in_use_is_refused_by_name(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])

        ran = shoal("demo", "--serve", "--port", port, cwd=tmp_path)

    assert ran.code == 1
    assert ran.complaint == f"--port {port}: address already in use; --port 0 takes any free port"


def test_serve_prints_address_spider_and_command_as_json(tmp_path: Path) -> None:
    with started("demo", "--serve", "--port", "0", "--json", cwd=tmp_path) as serving:
        assert serving.stdout is not None
        printed = json.loads(serving.stdout.readline())
        serving.send_signal(signal.SIGTERM)
        assert ended(serving).code == 0

    assert printed["url"].startswith("http://127.0.0.1:")
    assert f'shoal.Spider("shop", "{printed["url"]}"' in printed["spider"]
    assert printed["command"].startswith("shoal crawl shop.py")


def test_the_demo_opens_the_dashboard_on_the_running_crawl(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {opened}\n')
    browser.chmod(0o755)
    with started("demo", "--watch", cwd=tmp_path, env={"BROWSER": str(browser)}) as watching:
        assert watching.stderr is not None
        line = watching.stderr.readline()
        while "the dashboard is at" not in line:
            assert line, "it has ended"
            line = watching.stderr.readline()
        address, _, token = line.split()[-1].partition("#token=")
        while "starting crawl demo" not in line:
            assert line, "it has ended"
            line = watching.stderr.readline()
        request = urllib.request.Request(
            f"{address}api/v1/live", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["store"] == "shoal-demo"
        assert token not in opened.read_text()  # the list of processes shows the arguments of a browser
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=TIMEOUT)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)
    assert "give one of them" in shoal("demo", "--serve", "--watch", cwd=tmp_path).complaint
