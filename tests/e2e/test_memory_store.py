"""A crawl on a store in memory: it writes its output and leaves nothing else."""

import json
import os
from pathlib import Path

import pytest
from tests.e2e.command import HASTY, PAGES, QUICK, shoal


def in_memory() -> set[str]:
    """Return the files in memory, without those of tests of the frontier that may run beside this one."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("shoal-model-")}


def test_a_crawl_in_memory_writes_its_output_and_nothing_else(tmp_path: Path, shop: str) -> None:
    before = in_memory()

    ran = shoal("crawl", shop, "--store", "memory:", "--out", "x.jsonl", *QUICK, cwd=tmp_path, env=HASTY)

    assert ran.code == 0, ran.err
    assert "memory: is deleted" in ran.out
    items = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert len(items) == PAGES
    assert os.listdir(tmp_path) == ["x.jsonl"]
    assert in_memory() <= before


def test_a_crawl_in_memory_needs_an_output(tmp_path: Path, shop: str) -> None:
    ran = shoal("crawl", shop, "--store", "memory:", *QUICK, cwd=tmp_path)

    assert (ran.code, ran.complaint) == (1, "store: memory: keeps no items: name an output with --out")
    assert os.listdir(tmp_path) == []


def test_a_crawl_in_memory_without_a_page_says_why(tmp_path: Path) -> None:
    options = ("--store", "memory:", "--out", "x.jsonl", "--quiet", *QUICK)
    ran = shoal("crawl", "http://127.0.0.1:9/", *options, cwd=tmp_path, env={"SHOAL_RETRY_MAX_RETRIES": "0"})

    assert ran.code == 10
    assert "no page was fetched: http://127.0.0.1:9/:" in ran.complaint


@pytest.mark.parametrize(
    "command", ["status", "verify", "pause", "dlq list", "trace http://a.test/", "host show a.test"]
)
def test_commands_that_need_an_existing_store_refuse_memory(tmp_path: Path, command: str) -> None:
    ran = shoal(*command.split(), "--store", "memory:", cwd=tmp_path)

    assert ran.code == 1
    assert ran.complaint.startswith("store: memory: is deleted when its crawl ends")
    assert os.listdir(tmp_path) == []
