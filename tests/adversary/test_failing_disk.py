"""A disk that fails, files that vanish under a crawl, and a limit of open files: one clear error, no traceback."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.adversary.size import sized
from tests.e2e.command import SHOAL, shoal, start_logged, surroundings
from tests.graph_crawl import FIELDS, LONGEST_RUN, SPIDER, assert_same, serving_graph
from tests.site.graph import Shape
from tests.site.server import ServedSite

from shoal.archive.segments import SegmentFolder
from shoal.engine.crawl_options import fitting_concurrency

SHAPE = Shape(seed=12, pages=sized(200, full=1500), hosts=2)
OUTPUTS = [f"--out=items.{ending}" for ending in ("jsonl", "csv", "sqlite", "parquet")]
QUICK = ["--any-host", "--allow-private", "--rate", "0", "--quiet"]


def command(start: str, *options: str) -> list[str]:
    return [*SHOAL, "crawl", str(SPIDER), start, *QUICK, *OUTPUTS, *options]


async def run(script: str, folder: Path) -> tuple[int, str]:
    """Run a shell script in a separate mount namespace."""
    process = await asyncio.create_subprocess_exec(
        *("unshare", "-m", "bash", "-c", script),
        cwd=folder,
        env=surroundings({"TMPDIR": str(folder)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    async with asyncio.timeout(LONGEST_RUN):
        printed, _ = await process.communicate()
    return process.returncode or 0, printed.decode()


@pytest.mark.parametrize("kib", sized([700], full=[250, 400, 550, 700, 850, 1000, 1300, 1600]))
async def test_a_full_disk_exits_with_4_and_the_crawl_resumes(kib: int, tmp_path: Path) -> None:
    async with serving_graph(SHAPE) as (_, graph):
        crawl = " ".join(command(graph.start))
        code, printed = await run(
            f"mkdir tiny; mount -t tmpfs -o size={kib}k tmpfs tiny; cd tiny; {crawl}; code=$?;"
            f" mount -o remount,size=64m tiny ../tiny 2>/dev/null || mount -o remount,size=64m . ;"
            f" {crawl}; echo first $code then $?; cat items.jsonl > ../items.jsonl",
            tmp_path,
        )
        assert code == 0, printed
        assert "first 4 then 0" in printed, printed
        assert "bug" not in printed
        lines = [_json(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
        expected = [tuple(item[field] for field in FIELDS) for item in graph.expected().items]
        assert_same("items", [tuple(line[field] for field in FIELDS) for line in lines], expected)


def _json(line: str) -> dict[str, object]:
    return msgspec.json.decode(line, type=dict[str, object])


async def test_a_read_only_disk_exits_with_4(tmp_path: Path) -> None:
    async with serving_graph(SHAPE) as (_, graph):
        crawl = " ".join(command(graph.start))
        code, printed = await run(
            f"mkdir disk; mount -t tmpfs tmpfs disk; cd disk; {crawl} --max-pages 20;"
            f" mount -o remount,ro . ; {crawl}",
            tmp_path,
        )
        assert code == 4, printed
        assert "ead-only" in printed


def _segments(folder: Path) -> list[Path]:
    return list(folder.rglob("*.warc.gz"))


async def _damaged(
    folder: Path, start: str, site: ServedSite, damage: Callable[[Path], object]
) -> tuple[int, str]:
    """Run a crawl, damage its files when it has fetched some pages, and return its end."""
    arguments = command(start, "--per-host", "1")[len(SHOAL) :]
    process = start_logged(*arguments, cwd=folder, log=folder / "log")
    try:
        async with asyncio.timeout(LONGEST_RUN):
            while await site.served() < 40 or not _segments(folder):
                assert process.poll() is None, (folder / "log").read_text()
                await asyncio.sleep(0.02)
        damage(folder)
        return await asyncio.to_thread(process.wait, LONGEST_RUN), (folder / "log").read_text()
    finally:
        process.kill()


def segment(folder: Path) -> Path:
    [found] = folder.rglob("*.warc.gz")
    return found


@pytest.mark.parametrize(
    ("damage", "code", "said"),
    [
        (lambda at: segment(at).unlink(), 4, "was deleted or replaced"),
        (lambda at: os.truncate(segment(at), 0), 4, "was cut to"),
        (lambda at: (at / "shoal-data" / "store.db").unlink(), 5, "store.db was deleted or replaced"),
    ],
    ids=["segment deleted", "segment emptied", "store deleted"],
)
async def test_files_that_vanish_under_a_crawl_are_noticed(
    damage: Callable[[Path], object], code: int, said: str, tmp_path: Path
) -> None:
    async with serving_graph(SHAPE) as (site, graph):
        ended, printed = await _damaged(tmp_path, graph.start, site, damage)
        assert ended == code, printed
        assert said in printed
        if code == 5:
            return
        refused = await asyncio.to_thread(shoal, *command(graph.start)[len(SHOAL) :], cwd=tmp_path)
        assert refused.code == 1
        assert "accept the loss with shoal verify --repair" in refused.err
        repaired = await asyncio.to_thread(shoal, "verify", "--repair", cwd=tmp_path)
        assert repaired.code == 5, "its pages are lost for good"
        assert "continues in a new segment" in repaired.out
        resumed = await asyncio.to_thread(shoal, *command(graph.start)[len(SHOAL) :], cwd=tmp_path)
        assert resumed.code == 0, resumed.err
        assert SegmentFolder(segment_folder(tmp_path)).segments()
        assert shoal("verify", cwd=tmp_path).code == 5


def segment_folder(folder: Path) -> Path:
    return next(path.parent for path in folder.rglob("*.warc.gz"))


async def test_few_open_files_lower_the_concurrency(tmp_path: Path) -> None:
    async with serving_graph(SHAPE) as (_, graph):
        arguments = [
            part
            for part in command(graph.start, "--concurrency", "64", "--per-host", "32")
            if part != "--quiet"
        ]
        for limit, code, said in ((64, 0, "files.limited"), (24, 1, "may open only 24 files")):
            folder = tmp_path / str(limit)
            folder.mkdir()
            ended, printed = await run(f"ulimit -n {limit}; {' '.join(arguments)}", folder)
            assert ended == code, printed
            assert said in printed
            assert "Traceback" not in printed
        rows = (tmp_path / "64" / "items.jsonl").read_text().splitlines()
        assert len(rows) == len(graph.expected().items)
    shutil.rmtree(tmp_path / "24")


def test_the_concurrency_that_fits() -> None:
    assert fitting_concurrency(64, 1, 1024) == 64
    assert 0 < fitting_concurrency(64, 1, 64) < 64
    assert fitting_concurrency(64, 1, 32) == 0
