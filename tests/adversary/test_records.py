"""Records of crawls that an attacker with access to the store has written: what they say is checked before it is done."""

import asyncio
import os
import pickle
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.adversary.size import sized
from tests.e2e.command import (
    HASTY,
    PAGES,
    PRIVATE,
    QUICK,
    TIMEOUT,
    records,
    shoal,
    start_logged,
)
from tests.e2e.command_server import StartedCommand
from tests.servers.redis import RedisServer, valkey

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.model.errors import Rejected
from shoal.model.pace import Pace
from shoal.model.request import Link, Request
from shoal.model.settings import Settings
from shoal.redis_client import RedisClient, key_names
from shoal.spider.pickled import PickledSpider, running_python
from shoal.spider.source import SpiderFile, SpiderText
from shoal.stores.contract.crawl_record import CrawlRecord, spider_source
from shoal.stores.contract.record_reader import read_record, sign_record
from shoal.stores.open import open_store

GOOD = CrawlRecord(
    name="books",
    source=SpiderFile("books.py"),
    text=b"spider = ...",
    version="0123456789ab",
    settings=msgspec.to_builtins(Settings()),
    hosts=("books.example",),
    outputs=("/data/books.jsonl", "postgresql://shoal@db/books?table=books"),
)


def tree(record: CrawlRecord = GOOD) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(record))
    return found


def changed(**fields: object) -> dict[str, Any]:
    return {**tree(), **fields}


def setting(table: str, **values: object) -> dict[str, Any]:
    settings = tree()["settings"]
    return changed(settings={**settings, table: {**settings[table], **values}})


def spider(path: str, **more: object) -> dict[str, Any]:
    return changed(source={"type": "file", "path": path, **more})


class Touching:
    """Creates a file when its pickle is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mknod, (str(self._path),)


def pickled(path: Path) -> dict[str, Any]:
    """Return a spider by value, as programs send it to their own parse processes, that creates a file."""
    spider = PickledSpider("evil", pickle.dumps(Touching(path)), running_python(), "0")
    found: dict[str, Any] = msgspec.to_builtins(spider, builtin_types=[bytes])
    return found


HOSTILE: dict[str, dict[str, Any]] = {
    "an absolute path": spider("/tmp/evil.py"),
    "a path upwards": spider("../evil.py"),
    "a path inside": spider("a/b.py"),
    "a name with NUL": spider("a\0.py"),
    "two dots": spider(".."),
    "an empty name": spider(""),
    "a hidden file": spider(".bashrc.py"),
    "another kind of file": spider("authorized_keys"),
    "a name that is too long": spider("a" * 300 + ".py"),
    "a name that cannot be printed": spider("a\u202e.py"),
    "an attribute with code": spider("a.py", attribute="x.__class__"),
    "a module with code": changed(source={"type": "module", "module": "os;import x", "attribute": ""}),
    "a pickle": changed(source=pickled(Path("/nowhere"))),
    "a source of another kind": changed(source={"type": "shell", "path": "x"}),
    "a name of another crawl": changed(name="other"),
    "a name that cannot be printed either": changed(name="\x1b[2J"),
    "a negative number": changed(number=-1),
    "a text that is too long": changed(text=b"x" * (9 << 20)),
    "a version with a newline": changed(version="a\nb"),
    "settings as a list": changed(settings=[]),
    "a number as a table": changed(settings={"archive": 5}),
    "too much concurrency": setting("crawl", concurrency=10**9),
    "a rate in words": setting("crawl", rate="fast"),
    "a header with a line break": setting("crawl", headers={"X": "a\r\nHost: b"}),
    "a header with a number as its name": setting("crawl", headers={"X": 5}),
    "a host with a space": changed(hosts=["a b"]),
    "hosts as a number": changed(hosts=5),
    "a relative output": changed(outputs=["items.jsonl"]),
    "an output upwards": changed(outputs=["/data/../etc/x.jsonl"]),
    "an output with NUL": changed(outputs=["/data/a\0.jsonl"]),
    "an output with an escape sequence": changed(outputs=["/data/\x1b]0;x\x07.jsonl"]),
    "an output that is too long": changed(outputs=["/" + "a" * 5000]),
    "a file name that is too long": changed(outputs=["/data/" + "a" * 250 + ".jsonl"]),
    "too many outputs": changed(outputs=[f"/data/{number}.jsonl" for number in range(100)]),
    "an address with half a bracket": changed(outputs=["postgresql://[::1/x"]),
    "an archive upwards": setting("archive", location="../archive"),
    "an archive with NUL": setting("archive", location="s3://a\0/b"),
    "cookies cut short": changed(cookies=b"{"),
    "a cookie with a line break": changed(
        cookies=msgspec.json.encode(
            [{"name": "a", "value": "b\r\nX: c", "domain": "d", "path": "/", "port": 80}]
        )
    ),
    "cookies that are nested too deep": changed(cookies=b"[" * 100_000),
    "every address as a private range": setting("fetch", allow_ranges=["0.0.0.0/0"]),
    "the address of cloud metadata": setting("fetch", allow_ranges=["169.254.169.254/32"]),
}


@pytest.mark.parametrize("record", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_record_with_a_hostile_field_is_refused_by_its_reader(record: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        read_record("books", msgspec.msgpack.encode(record))


def test_records_of_earlier_versions_are_read() -> None:
    old = tree()
    for table, key in (("fetch", "allow_ranges"), ("worker", None)):
        if key is None:
            del old["settings"][table]
        else:
            del old["settings"][table][key]
    assert read_record("books", msgspec.msgpack.encode(old)).outputs == GOOD.outputs
    newer = {**tree(), "colour": "red"}
    assert read_record("books", msgspec.msgpack.encode(newer)).revision == GOOD.revision


def values(random_: random.Random) -> object:
    texts = ["", "..", "/etc/passwd", "\0", "\x1b[2J", "a" * 5000, "postgresql://", "s3://b/../..", "1e999"]
    return random_.choice(
        [None, True, -1, 2**63, 1.5, float("nan"), b"\xff\xfe", [], {}, [[]], {"a": {"b": 1}}, *texts]
    )


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in (
        node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    ):
        yield node, key
        yield from places(value)


def test_no_change_of_a_record_raises_anything_but_a_refusal(tmp_path: Path) -> None:
    random_, reasons = random.Random(20), list[str]()
    began, rounds = time.monotonic(), sized(1_500, full=100_000)
    for _ in range(rounds):
        record = tree()
        for _ in range(random_.randint(1, 3)):
            node, key = random_.choice(list(places(record)))
            node[key] = values(random_)
        packed = bytearray(msgspec.msgpack.encode(record))
        if random_.random() < 0.3:
            packed[random_.randrange(len(packed))] = random_.randrange(256)
        try:
            read = read_record("books", bytes(packed))
        except Rejected as error:
            reasons.append(str(error))
            continue
        assert read.archive_location is not None
        if isinstance(read.source, SpiderFile):
            source = spider_source(read)
            assert isinstance(source, SpiderText)
            assert (source.name, source.text) == (read.source.path, read.text)
    assert len(reasons) > rounds / 4
    assert max(map(len, reasons)) < 1_000
    assert time.monotonic() - began < 60 + rounds / 100


class HostileStore:
    """A store with crawls of a shop, and the means to change what their records say."""

    def __init__(self, server: RedisServer, folder: Path, shop: str) -> None:
        self.server, self.folder, self._shop = server, folder, shop

    def submit(self, crawl: str, **env: str) -> None:
        options = (*QUICK, "--crawl", crawl, "--out", f"{crawl}.jsonl", "--json")
        environment = {"SHOAL_STORE": self.server.dsn, **HASTY, **env}
        ran = shoal("submit", self._shop, *options, cwd=self.folder, env=environment)
        assert ran.code == 0, ran.err

    async def copy(self, crawl: str, name: str) -> None:
        """Add a crawl with the record of another one, and one request to fetch."""
        async with open_store(self.server.dsn, create=True) as store:
            frontier, client = store.fleet.frontier, store.fleet.client
            key = key_names.crawl_records(client.fleet_tag)
            record = msgspec.msgpack.decode(await client.do(client.fleet_tag, "HGET", key, crawl))
            await frontier.crawls.open(name, pace=Pace(interval=0.0, burst=1, concurrency=16))
            await frontier.add(name, [Link.to(Request(url=self._shop))])
            record |= {"name": name, "number": await frontier.reader.number(name)}
            record["outputs"] = [str(self.folder / f"{name}.jsonl")]
            packed = msgspec.msgpack.encode(record)
            await client.do(client.fleet_tag, "HSET", key, name, packed)

    async def change(
        self, crawl: str, change: Callable[[dict[str, Any]], None], *, key: bytes = b""
    ) -> bytes:
        """Change the record of a crawl as an attacker does who can write to the store; return it as it was."""
        async with RedisClient.open(self.server.dsn) as client:
            tag = client.fleet_tag
            before: bytes = await client.do(tag, "HGET", key_names.crawl_records(tag), crawl)
            record = msgspec.msgpack.decode(before)
            change(record)
            packed = msgspec.msgpack.encode(record)
            await client.do(tag, "HSET", key_names.crawl_records(tag), crawl, packed)
            if key:
                signature = sign_record(key, crawl, packed)
                await client.do(tag, "HSET", key_names.record_signatures(tag), crawl, signature)
            await client.do(tag, "INCR", key_names.news(tag))
        return before

    def start(self, **env: str) -> StartedCommand:
        environment = {"SHOAL_STORE": self.server.dsn, **PRIVATE, **HASTY, **env}
        return start_logged("worker", cwd=self.folder, log=self.folder / "worker.log", env=environment)

    def refusals(self) -> dict[str, str]:
        """Return, by crawl or output, what a running worker refuses, as `shoal status --json` shows it."""
        workers = self.status()["workers"]
        found: dict[str, str] = {name: why for worker in workers for name, why in worker["refused"].items()}
        for worker in workers:
            found |= {at["crawl"]: at["why"] for at in worker["outputs"] if at["doing"] == "refused"}
        return found

    def status(self) -> Any:
        return shoal("status", "--json", cwd=self.folder, env={"SHOAL_STORE": self.server.dsn}).json

    def until(self, worker: StartedCommand, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            assert worker.poll() is None, self.log
            assert time.monotonic() < deadline, (self.refusals(), self.log)
            time.sleep(0.2)

    @property
    def log(self) -> str:
        return (self.folder / "worker.log").read_text()

    def items(self, crawl: str) -> int:
        path = self.folder / f"{crawl}.jsonl"
        return len(records(path)) if path.exists() else 0


def ended(worker: StartedCommand) -> None:
    worker.terminate()
    worker.wait(TIMEOUT)


@pytest.mark.timeout(240)
async def test_a_worker_does_for_a_record_only_what_its_operator_allows(tmp_path: Path) -> None:
    folder, outside = tmp_path / "work", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "customers.jsonl").write_text('{"name": "Ada"}\n')
    asked: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
        "path": (
            lambda record: record.update(
                source={"type": "file", "path": str(outside / "evil.py")}, text=b"x"
            ),
            "source: not the name of a spider's file",
        ),
        "output": (
            lambda record: record.update(outputs=[str(outside / "items.jsonl")], overwrite=True),
            f"--allow-output {outside}",
        ),
        "through": (
            lambda record: record.update(outputs=[str(folder / "link" / "items.jsonl")]),
            f"which leads to {outside}",
        ),
        "existing": (
            lambda record: record.update(outputs=[str(folder / "customers.jsonl")], overwrite=True),
            "it already exists and was not written by this crawl",
        ),
        "own": (
            lambda record: record.update(outputs=[str(folder / "shoal-data" / "store.db")]),
            "only items/ and archive/ are for crawls",
        ),
        "database": (
            lambda record: record.update(outputs=["postgresql://shoal@127.0.0.1:9/x?passfile=/etc/passwd"]),
            "--allow-output postgresql://shoal@127.0.0.1:9/x",
        ),
        "archive": (
            lambda record: record["settings"]["archive"].update(location=str(outside / "archive")),
            f"archive.location {outside}",
        ),
        "authority": (
            lambda record: record["settings"]["crawl"].update(ca_file="/etc/ssl/certs/ca-certificates.crt"),
            "the crawl asks for crawl.ca_file",
        ),
        "names": (
            lambda record: record["settings"]["crawl"].update(nameservers="127.0.0.1:9"),
            "the crawl asks for crawl.nameservers",
        ),
        "pickle": (
            lambda record: record.update(source=pickled(outside / "pickle")),
            "not a record of a crawl: Invalid value 'pickled' - at `$.source.type`",
        ),
        "junk": (lambda record: record.update(settings=[1]), "not a record of a crawl"),
    }
    async with valkey(tmp_path / "server") as server:
        with open_shop(Shop(categories=1), latency=0.001) as shop:
            store = HostileStore(server, folder, shop)
            store.submit("good")
            for crawl, (change, _) in asked.items():
                await store.copy("good", crawl)
                await store.change(crawl, change)
            worker = store.start()
            try:
                store.until(
                    worker, lambda: store.items("good") == PAGES and asked.keys() <= store.refusals().keys()
                )
                refusals = store.refusals()
                # The record asks for more while the crawl is served.
                await store.change("good", lambda record: record.update(outputs=["/../x.jsonl"], number=-1))
                store.until(worker, lambda: "good" in store.refusals())
            finally:
                ended(worker)
    for crawl, (_, reason) in asked.items():
        assert reason in refusals[crawl], (crawl, refusals[crawl])
    assert list(outside.iterdir()) == []
    assert (folder / "customers.jsonl").read_text() == '{"name": "Ada"}\n'
    assert "crawl.refused" in store.log
    assert "output.refused" in store.log


@pytest.mark.timeout(240)
async def test_private_addresses_need_the_crawl_and_the_worker(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with valkey(tmp_path / "server") as server:
        with open_shop(Shop(categories=1), latency=0.001) as shop:
            store = HostileStore(server, folder, shop)
            store.submit("asks")
            worker = store.start(SHOAL_CRAWL_ALLOW_PRIVATE="0", SHOAL_FETCH_ALLOW_RANGES="10.0.0.0/8")
            try:
                store.until(worker, lambda: "asks" in store.refusals())
                assert "--allow-private" in store.refusals()["asks"]
            finally:
                ended(worker)
            await store.change("asks", lambda record: record["settings"]["crawl"].update(allow_private=False))
            worker = store.start()
            try:
                store.until(worker, lambda: store.status()["crawls"][0]["counts"]["dead"] > 0)
            finally:
                ended(worker)
            assert store.status()["crawls"][0]["counts"]["done"] == 0
            # A range is enough on both sides, and less than all private addresses.
            await store.change(
                "asks", lambda record: record["settings"]["fetch"].update(allow_ranges=["127.0.0.0/30"])
            )
            shoal("dlq", "replay", "--yes", cwd=folder, env={"SHOAL_STORE": server.dsn})
            worker = store.start(SHOAL_CRAWL_ALLOW_PRIVATE="0", SHOAL_FETCH_ALLOW_RANGES="127.0.0.0/8")
            try:
                store.until(worker, lambda: store.items("asks") == PAGES)
            finally:
                ended(worker)


@pytest.mark.timeout(240)
async def test_a_worker_with_a_key_takes_signed_records_only(tmp_path: Path) -> None:
    folder, key = tmp_path / "work", os.urandom(32).hex()
    folder.mkdir()
    (tmp_path / "key").write_text(f"{key}\n")
    (tmp_path / "key").chmod(0o600)
    keyed = {"SHOAL_WORKER_RECORD_KEY_FILE": str(tmp_path / "key")}
    async with valkey(tmp_path / "server") as server:
        with open_shop(Shop(categories=1), latency=0.001) as shop:
            store = HostileStore(server, folder, shop)
            store.submit("signed", **keyed)
            store.submit("unsigned")
            store.submit("tampered", **keyed)
            await store.change("tampered", lambda record: record.update(overwrite=True))
            worker = store.start(**keyed)
            try:
                bad = {"unsigned", "tampered"}
                store.until(worker, lambda: store.items("signed") == PAGES and bad <= store.refusals().keys())
                assert "it is not signed" in store.refusals()["unsigned"]
                assert "its signature does not fit" in store.refusals()["tampered"]
                # A record that was good once must not replace a newer one.
                later = time.time() + 60
                old = await store.change(
                    "signed", lambda record: record.update(submitted_at=later), key=key.encode()
                )
                await asyncio.sleep(5)  # the worker looks every 2 s
                assert "signed" not in store.refusals()
                await store.change(
                    "signed", lambda record: record.update(msgspec.msgpack.decode(old)), key=key.encode()
                )
                store.until(worker, lambda: "signed" in store.refusals())
                assert "older than the one" in store.refusals()["signed"]
            finally:
                ended(worker)
    assert store.items("unsigned") == store.items("tampered") == 0
    assert key not in store.log
