"""Backends of an installed package that is not part of Shoal: a sink, a bus and an archive location."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from tests.e2e.command import DONE, HASTY, PAGES, QUICK, SHOAL, shoal, surroundings
from tests.fleet_crawl import Fleet
from tests.graph_crawl import FIELDS, LONGEST_RUN, POLL, SPIDER, assert_same, serving_graph
from tests.plugins import install_plugin
from tests.servers.redis import valkey
from tests.site.graph import Graph, Shape
from tests.third_party import netstrings

SHAPE = Shape(seed=7, pages=600, hosts=8, chain=8, redirects=10, gone=5, disallowed=5)
KILL_AFTER_PAGES = 250
CONTRACT_TESTS = """
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from netstrings import read_items

from shoal.sinks import Sink, open_sink
from shoal.testing.contracts.sink import SinkContract


@dataclass
class Bench:
    output: str

    def open(self, *, overwrite: bool = False) -> Sink:
        return open_sink(self.output, overwrite=overwrite)

    def read(self) -> list[dict[str, Any]]:
        return list(read_items(Path(self.output)))

    def remove(self) -> None:
        Path(self.output).unlink()

    def stored_text(self, text: str) -> str:
        return text


class TestNetstrings(SinkContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Bench:
        return Bench(str(tmp_path / "items.netstrings"))
"""


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_plugin(
        tmp_path_factory.mktemp("plugin"),
        "shoal-netstrings",
        {"netstrings.py": Path(netstrings.__file__).read_text()},
        {
            "shoal.sinks": {".netstrings": "netstrings:SINK"},
            "shoal.buses": {"relay": "netstrings:BUS"},
            "shoal.archives": {"shelf": "netstrings:ARCHIVE"},
        },
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def start_group(*arguments: str, cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*SHOAL, *arguments], cwd=cwd, env=surroundings(env), start_new_session=True)


def assert_items(path: Path, graph: Graph) -> None:
    expected = [tuple(item[field] for field in FIELDS) for item in graph.expected().items]
    found = [tuple(item[field] for field in FIELDS) for item in netstrings.read_items(path)]
    assert_same(path.name, found, expected)


async def test_a_killed_crawl_writes_every_item_once(site_packages: Path, folder: Path) -> None:
    env = {"PYTHONPATH": str(site_packages)}
    outputs = ("--store", "store", "--out", "items.netstrings", "--quiet")
    async with serving_graph(SHAPE) as (site, graph):
        command = ("crawl", str(SPIDER), graph.start, "--any-host", *QUICK, *outputs)
        process = start_group(*command, cwd=folder, env=env)
        try:
            async with asyncio.timeout(LONGEST_RUN):
                while await site.served() < KILL_AFTER_PAGES:
                    assert process.poll() is None
                    await asyncio.sleep(POLL)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        resumed = shoal(*command, cwd=folder, env=env, timeout=LONGEST_RUN)

        assert resumed.code == 0, resumed.err
        assert_items(folder / "items.netstrings", graph)
    verified = shoal("verify", "--store", "store", cwd=folder, env=env)
    assert verified.code == 0, verified.out + verified.err
    # Without the package the items cannot be counted, which is not an error.
    elsewhere = shoal("verify", "--store", "store", cwd=folder)
    assert elsewhere.code == 0, elsewhere.out + elsewhere.err


async def test_a_fleet_writes_every_item_once(site_packages: Path, folder: Path, tmp_path: Path) -> None:
    async with valkey(tmp_path / "server") as server, serving_graph(SHAPE) as (_, graph):
        with Fleet(server.dsn, folder, settings={"PYTHONPATH": str(site_packages)}) as fleet:
            submitted = fleet.submit(graph.start, "--out", "items.netstrings")
            assert submitted.code == 0, submitted.err
            workers = [fleet.start("--until-done") for _ in range(2)]
            codes = [await fleet.ended(worker) for worker in workers]

            assert codes == [0, 0], fleet.logs()
            assert_items(folder / "items.netstrings", graph)
            verified = fleet.verify()
            assert verified.code == 0, verified.out + verified.err


async def test_a_worker_without_the_package_leaves_the_output_to_others(
    site_packages: Path, shop: str, folder: Path, tmp_path: Path
) -> None:
    async with valkey(tmp_path / "server") as server:
        with Fleet(server.dsn, folder, settings=HASTY) as fleet:
            env = {**fleet.env, "PYTHONPATH": str(site_packages)}
            command = ("submit", shop, *QUICK, "--out", "items.netstrings")
            assert shoal(*command, cwd=folder, env=env).code == 0
            fetching = fleet.start()
            writing = shoal("worker", "--roles", "sink", "--until-done", cwd=folder, env=env)
            fleet.kill(fetching)

            assert writing.code == 0, writing.err
            assert "no sink" in fleet.logs() or "known: " in fleet.logs()
    assert len(list(netstrings.read_items(folder / "items.netstrings"))) == PAGES


async def test_a_fleet_uses_a_bus_and_an_archive_of_the_package(
    site_packages: Path, shop: str, folder: Path, tmp_path: Path
) -> None:
    shelf = tmp_path / "shelf"
    settings = {
        **HASTY,
        "PYTHONPATH": str(site_packages),
        "SHOAL_ARCHIVE_LOCATION": f"shelf://{shelf}",
    }
    async with valkey(tmp_path / "server") as server:
        with Fleet(f"{server.dsn}?bus=relay://here", folder, settings=settings) as fleet:
            assert fleet.submit(shop, "--crawl", "shop", spider=None).code == 0
            workers = [fleet.start("--roles", roles, "--until-done") for roles in ("fetch", "parse,sink")]
            codes = [await fleet.ended(worker) for worker in workers]

            assert codes == [0, 0], fleet.logs()
            assert fleet.counts()["done"] == DONE
    assert list((shelf / "shop").glob("*.warc.gz"))


def test_the_error_for_an_unknown_suffix_lists_those_of_installed_packages(
    site_packages: Path, shop: str, folder: Path
) -> None:
    ran = shoal(
        "crawl", shop, *QUICK, "--out", "x.unknown", cwd=folder, env={"PYTHONPATH": str(site_packages)}
    )

    assert ran.code == 1
    assert ".parquet, .netstrings, and - for standard output" in ran.complaint


def test_the_sink_keeps_the_contract(site_packages: Path, folder: Path) -> None:
    (folder / "test_netstrings.py").write_text(CONTRACT_TESTS)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_netstrings.py"],
        cwd=folder,
        env=surroundings({"PYTHONPATH": str(site_packages), "PYTHONWARNINGS": ""}),
        capture_output=True,
        text=True,
        timeout=LONGEST_RUN,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout
