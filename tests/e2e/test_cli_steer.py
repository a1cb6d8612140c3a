"""A crawl that runs is paused, slowed down and resumed from another process."""

import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.e2e.command import DONE, HASTY, QUICK, ended, shoal, started


def test_a_running_crawl_takes_commands_and_a_stopped_store_is_changed_directly(
    shop: str, tmp_path: Path
) -> None:
    host = shop.split("/")[2]
    with started("crawl", shop, "--allow-private", "--rate", "2", "--quiet", cwd=tmp_path) as crawl:
        while not (tmp_path / "shoal-data" / "control").exists():
            with suppress(subprocess.TimeoutExpired):
                assert crawl.wait(0.05) is None
        assert shoal("pause", cwd=tmp_path).out == f"{host} is paused: no new requests until shoal resume\n"
        [status] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
        assert status["paused"] is True
        slow = shoal("host", "set-rate", host, "0.001", "--json", cwd=tmp_path).json["host"]
        assert slow["interval"] == 1000.0
        assert shoal("resume", "--json", cwd=tmp_path).json["paused"] is False
        live = shoal("host", "show", host, "--json", cwd=tmp_path).json["host"]
        assert live["interval"] == 1000.0
        blocked = shoal("host", "block", shop, cwd=tmp_path).out
        assert blocked.startswith(f"{host} is blocked: no more requests to it; ")
        crawl.send_signal(signal.SIGINT)
        assert ended(crawl).code == 3

    assert "paused: shoal host resume" in shoal("host", "show", host, cwd=tmp_path).out
    shoal("host", "resume", host, cwd=tmp_path)
    faster = shoal("host", "set-rate", host, "0", cwd=tmp_path).out
    assert faster.startswith(f"{host} has no rate limit now")
    usual = shoal("host", "set-rate", host, "default", cwd=tmp_path).out
    assert usual.startswith(f"{host} has the rate of the settings again")
    assert shoal("host", "show", host, "--json", cwd=tmp_path).json["host"]["interval"] == 0.5
    for wrong in ("-1", "inf", "fast"):
        assert (
            f"'{wrong}' is not a rate" in shoal("host", "set-rate", "--", host, wrong, cwd=tmp_path).complaint
        )
    ran = shoal("crawl", shop, *QUICK, "--json", cwd=tmp_path, env=HASTY)
    assert ran.json["counts"]["done"] == DONE
    unknown = shoal("host", "show", "elsewhere.test", cwd=tmp_path)
    assert (unknown.code, unknown.complaint) == (
        1,
        "shoal-data knows no host elsewhere.test: no crawl has requests for it",
    )
