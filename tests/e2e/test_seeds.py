"""A list of start URLs, from a file or from standard input."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.e2e.command import QUICK, SHOAL, TIMEOUT, Ran, shoal, surroundings
from tests.e2e.command_server import SERVER, StartedCommand
from tests.servers.redis import RedisServer, valkey

from shoal.redis_client import RedisClient
from shoal.stores.open import open_store
from shoal.stores.redis.crawls import Crawls

SUBMIT = ("submit", "--crawl", "listed", "--out", "items.jsonl", "--seeds")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with valkey(tmp_path / "server") as server:
        yield server


class Typing:
    """A command that is still being told its start URLs."""

    def __init__(self, server: RedisServer, folder: Path, *options: str) -> None:
        self._dsn = server.dsn
        self._process = subprocess.Popen(
            [*SHOAL, *SUBMIT, "-", *options],
            cwd=folder,
            env=surroundings({"SHOAL_STORE": server.dsn}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def tell(self, line: str, *, accepted: int) -> None:
        """Write a line, and wait until the store has so many start URLs."""
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()
        async with open_store(self._dsn) as store:
            frontier = store.frontier
            while (
                sum([(await frontier.counts(name)).accepted for name in await frontier.crawls()]) != accepted
            ):
                assert self._process.poll() is None
                await asyncio.sleep(0.05)

    async def is_announced(self) -> bool:
        """Return whether workers would find the crawl."""
        async with RedisClient.open(self._dsn, advise=False) as store:
            return await Crawls(store).get("listed") is not None

    def interrupt(self) -> Ran:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(TIMEOUT)  # by itself: its standard input is open
        return self.end()

    def end(self) -> Ran:
        out, err = self._process.communicate(timeout=TIMEOUT)
        return Ran(self._process.returncode, out, err)


async def test_valid_lines_are_submitted_and_bad_ones_set_the_exit_code(
    server: RedisServer, tmp_path: Path
) -> None:
    lines = [f"https://host-{n % 7}.test/{n}" for n in range(3_000)]
    lines[1_500] = "nonsense"
    (tmp_path / "urls.txt").write_text("\n".join(lines))
    env = {"SHOAL_STORE": server.dsn}

    first = shoal(*SUBMIT, "urls.txt", "--json", cwd=tmp_path, env=env)
    again = shoal(*SUBMIT, "urls.txt", "--json", cwd=tmp_path, env=env)

    assert (first.code, first.json["added"], first.json["known"]) == (6, 2_999, 0)
    assert "shoal: urls.txt:1501: not a valid URL" in first.err
    assert (again.code, again.json["added"], again.json["known"]) == (6, 0, 2_999)
    assert again.json["changed"] is False
    del lines[1_500]
    (tmp_path / "urls.txt").write_text("\n".join([*lines, "https://host-9.test/"]))
    more = shoal(*SUBMIT, "urls.txt", cwd=tmp_path, env=env)
    assert more.code == 0
    assert more.out.startswith("crawl listed resumed: 1 start URL added, 2,999 already known\n")


async def test_lines_of_a_slow_writer_are_added_at_once(server: RedisServer, tmp_path: Path) -> None:
    typing = Typing(server, tmp_path)
    await typing.tell("https://a.test/1\n", accepted=1)
    await typing.tell("https://a.test/2\nhttps://a.test/3\n", accepted=3)

    ran = typing.end()

    assert ran.code == 0, ran.err
    assert "3 start URLs added" in ran.out


@pytest.mark.parametrize(("option", "at_once"), [("--same-host", False), ("--any-host", True)])
async def test_workers_start_before_the_list_is_read_if_its_urls_are_independent(
    server: RedisServer, tmp_path: Path, option: str, at_once: bool
) -> None:
    typing = Typing(server, tmp_path, option)
    await typing.tell("https://a.test/1\n", accepted=1)
    await typing.tell("https://a.test/2\n", accepted=2)

    assert await typing.is_announced() is at_once
    assert typing.end().code == 0
    assert await typing.is_announced()


async def test_an_interrupted_list_keeps_what_was_added_and_the_same_command_resumes(
    server: RedisServer, tmp_path: Path
) -> None:
    typing = Typing(server, tmp_path)
    await typing.tell("https://a.test/1\n", accepted=1)

    ran = typing.interrupt()

    assert ran.code == 3
    assert "that were added (1) are kept; run the same command to resume" in ran.err
    again = Typing(server, tmp_path)
    await again.tell("https://a.test/1\nhttps://a.test/2\n", accepted=2)
    assert "crawl listed resumed: 1 start URL added, 1 already known" in again.end().out


class Full:
    """A server that takes nothing new, with a crawl in it whose end would make room."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._env = {"SHOAL_STORE": server.dsn}

    async def fill(self, *, other: bool = True) -> None:
        submit = ("submit", "https://other.test/", "--crawl", "other", "--out", "other.jsonl")
        command = submit if other else ("status",)  # which leaves a store without a crawl
        assert shoal(*command, cwd=self._folder, env=self._env).code == 0
        (self._folder / "urls.txt").write_text("".join(f"https://host-{n}.test/\n" for n in range(200)))
        await self._server.ask("CONFIG", "SET", "maxmemory", 1)

    async def make_room(self) -> None:
        await self._server.ask("CONFIG", "SET", "maxmemory", 0)

    def submit(self) -> StartedCommand:
        """Begin to submit, and return when it waits, or has ended."""
        process = SERVER.start((*SUBMIT, "urls.txt"), cwd=self._folder, env=surroundings(self._env))
        assert process.stderr is not None
        self.said = next(line for line in process.stderr if "is full" in line)
        return process


async def test_submit_waits_for_a_full_store_while_workers_can_free_memory(
    server: RedisServer, tmp_path: Path
) -> None:
    full = Full(server, tmp_path)
    await full.fill()
    process = full.submit()
    assert "is full (maxmemory): waiting, no worker is running: start shoal worker to free space" in full.said
    assert process.poll() is None
    await full.make_room()

    out, err = process.communicate(timeout=TIMEOUT)

    assert process.returncode == 0, err
    assert out.startswith("crawl listed created: 200 start URLs added\n")


async def test_waiting_for_a_full_store_is_interrupted_like_a_long_list(
    server: RedisServer, tmp_path: Path
) -> None:
    full = Full(server, tmp_path)
    await full.fill()
    process = full.submit()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 3, err
    assert "what was added is kept; run the same command to resume" in err

    await full.make_room()
    assert shoal(*SUBMIT, "urls.txt", "--json", cwd=tmp_path, env={"SHOAL_STORE": server.dsn}).code == 0


async def test_submit_fails_at_once_if_no_worker_can_free_memory(server: RedisServer, tmp_path: Path) -> None:
    full = Full(server, tmp_path)
    await full.fill(other=False)
    process = full.submit()

    process.communicate(timeout=TIMEOUT)

    assert process.returncode == 4
    assert "is full (maxmemory), and no crawl has work left that would free space" in full.said


def test_a_crawl_on_one_machine_takes_a_list_too(shop: str, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text(f"{shop}\nnonsense\n{shop}#again\n")
    listed = ("crawl", "--seeds", "urls.txt", "--out", "items.jsonl", "--max-pages", "5", *QUICK)

    first = shoal(*listed, cwd=tmp_path)
    again = shoal(*listed, "--json", cwd=tmp_path)

    assert first.code == 6
    assert "1 start URL added, 1 already known" in first.err
    assert (again.code, again.json["exit_code"]) == (6, 6)
    assert again.json["counts"]["done"] == 5
