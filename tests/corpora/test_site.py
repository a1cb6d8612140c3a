"""A real site, crawled whole by the real command: the server's log must show what a second crawler asks for."""

import os
import subprocess
from pathlib import Path

import pytest
from bench.web_server import serving
from tests.corpora.packages import missing
from tests.corpora.trees import OPENJDK, POSTGRESQL, WHOLE
from tests.corpora.walk import walk
from tests.e2e.command import SHOAL, records, surroundings

LONGEST_RUN = 1500.0  # seconds, on a machine that is busy with other things


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_real_site_is_crawled_whole_and_every_page_once(tmp_path: Path) -> None:
    tree, least = (OPENJDK, 10_000) if WHOLE else (POSTGRESQL, 1_000)
    with serving(tree.root(), core=max(os.sched_getaffinity(0))) as server:
        if server.name != "nginx":
            missing("a real site needs a real server: install nginx")
        start = f"{server.url}index.html"
        options = ("--allow-private", "--rate", "0", "--per-host", "16", "--out", "pages.jsonl", "--quiet")
        crawl = subprocess.run(
            [*SHOAL, "crawl", start, *options],
            cwd=tmp_path,
            env=surroundings(),
            timeout=LONGEST_RUN,
            check=False,
        )
        crawled = server.take_log()
        walked = walk(start)
    pages = records(tmp_path / "pages.jsonl")
    print(
        f"{tree.package}: {len(crawled):,} addresses asked for, {len(pages):,} pages; the walk: {len(walked):,}"
    )
    assert crawl.returncode == 0
    assert crawled.keys() - walked == set(), "asked for by the crawl alone"
    assert walked - crawled.keys() == set(), "missed by the crawl"
    assert set(crawled.values()) == {1}
    assert len(pages) >= least
    assert len({page["url"] for page in pages}) == len(pages)
