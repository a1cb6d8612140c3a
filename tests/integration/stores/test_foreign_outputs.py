"""A server reads no file that only a record of a shared store names."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.redis import valkey

from shoal.model.errors import Misconfigured
from shoal.services.remote.downloads import open_download
from shoal.services.remote.items import find_output


async def test_outputs_outside_of_the_folder_are_not_read_unless_they_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    (elsewhere / "items.jsonl").write_text('{"secret": 1}\n')
    monkeypatch.chdir(here)
    async with valkey(tmp_path / "valkey") as server:
        outputs = (f"--out={elsewhere}/items.jsonl", f"--out={here}/own.csv")
        command = (
            "submit",
            "http://a.test/",
            "--crawl=a",
            "--quiet",
            "--yes",
            f"--store={server.dsn}",
            *outputs,
        )
        submit = [sys.executable, "-m", "shoal", *command]
        await asyncio.to_thread(subprocess.run, submit, check=True, timeout=60)
        assert await find_output(server.dsn, "a", allowed=()) == f"{here}/own.csv"
        assert await find_output(server.dsn, "a", allowed=(str(elsewhere),)) == f"{elsewhere}/items.jsonl"
        with pytest.raises(Misconfigured, match="allow_outputs"):
            await open_download(server.dsn, "a", "csv", asyncio.Semaphore(1), allowed=())
