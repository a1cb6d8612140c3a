"""`kill -9` while a crawl writes its fetch log: what was written stays, and the next run continues it."""

import time
from pathlib import Path

from tests.e2e.command import DONE, HASTY, TIMEOUT, shoal, started

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop

RATE = 10
WRITTEN = 12  # rows after which the crawl is killed


def logged(folder: Path, what: str) -> int:
    ran = shoal("sql", f"SELECT {what} FROM attempts WHERE outcome = 'done'", "--json", cwd=folder)
    return int(ran.json["rows"][0][0]) if ran.code == 0 else 0


def test_a_kill_costs_the_log_no_more_than_its_last_second(tmp_path: Path) -> None:
    with open_shop(Shop(categories=1), latency=0.001) as shop:
        crawl = ("crawl", shop, "--allow-private", "--rate", str(RATE), "--crawl", "shop", "--quiet")
        with started(*crawl, cwd=tmp_path, env=HASTY) as running:
            deadline = time.monotonic() + TIMEOUT
            while logged(tmp_path, "count(*)") < WRITTEN:
                assert running.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            running.kill()
            running.wait()
        [state] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
        kept, done = logged(tmp_path, "count(*)"), state["counts"]["done"]
        assert WRITTEN <= kept <= done
        [first] = shoal("trace", shop, "--json", cwd=tmp_path).json["traces"]
        assert [one["worker"] is not None for one in first["attempts"]] == [True]

        assert shoal(*crawl, cwd=tmp_path, env=HASTY).code == 0

    lost = done - kept
    assert logged(tmp_path, "count(DISTINCT url)") == DONE - lost
    assert not list(tmp_path.rglob("*.log"))  # the part of the killed run is complete
    assert shoal("verify", cwd=tmp_path).code == 0
