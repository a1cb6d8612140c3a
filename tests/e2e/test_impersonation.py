"""Which client fetches a page: by crawl, by host and by request; and HTTP/2 without impersonation."""

import asyncio
import gzip
from pathlib import Path

import pytest
from tests.e2e.command import QUICK, records, shoal
from tests.servers.nginx import Nginx, secure_nginx
from tests.servers.redis import valkey
from tests.site.certificates import make_authority

SPIDER = """
import shoal

spider = shoal.Spider("levels", start="{one}/plain", same_host=False)


@spider.page()
def page(page):
    yield {{"url": page.url}}
    yield shoal.Request(url="{one}/asked", level="impersonate")
    yield shoal.Request(url="{two}/host")
    yield shoal.Request(url="{two}/back", level="plain")
"""
SETTINGS = """
[crawl]
profile = "firefox"
[hosts."127.0.0.2:{port}"]
level = "impersonate"
"""


def seen(server: Nginx) -> dict[str, tuple[str, str]]:
    """Return protocol and browser by path."""
    split = (line.split("|") for line in server.lines())
    return {
        path: (protocol, "Firefox" if "Firefox" in agent else agent[:5]) for path, protocol, agent, _ in split
    }


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_the_client_is_chosen_by_request_host_and_crawl(tmp_path: Path, kind: str) -> None:
    authority = make_authority(tmp_path)
    certificate, key = authority.issue("IP:127.0.0.1,IP:127.0.0.2")
    env = {"SHOAL_CRAWL_CA_FILE": authority.file, "SHOAL_CRAWL_ALLOW_PRIVATE": "1"}
    async with (
        secure_nginx(tmp_path / "nginx", certificate=certificate, key=key) as server,
        valkey(tmp_path / "valkey") as redis,
    ):
        one, two = (f"https://127.0.0.{number}:{server.port}" for number in (1, 2))
        (tmp_path / "levels.py").write_text(SPIDER.format(one=one, two=two))
        (tmp_path / "shoal.toml").write_text(SETTINGS.format(port=server.port))
        store = ("--store", redis.dsn if kind == "fleet" else "data")
        ran = await asyncio.to_thread(
            shoal, "crawl", "levels.py", *QUICK, *store, "--out", "o.jsonl", "--json", cwd=tmp_path, env=env
        )
        again = await asyncio.to_thread(
            shoal,
            *("crawl", f"{one}/http2", *QUICK, "--store", "other", "--json"),
            cwd=tmp_path,
            env={**env, "SHOAL_CRAWL_HTTP2": "1"},
        )
        found = seen(server)

    assert (ran.code, ran.json["counts"]["dead"]) == (0, 0), ran.err
    assert (again.code, again.json["counts"]["dead"]) == (0, 0), again.err
    assert found == {
        "/plain": ("HTTP/1.1", "Shoal"),
        "/asked": ("HTTP/2.0", "Firefox"),
        "/host": ("HTTP/2.0", "Firefox"),
        "/back": ("HTTP/1.1", "Shoal"),
        "/http2": ("HTTP/2.0", "Shoal"),
    }
    assert {record["url"] for record in records(tmp_path / "o.jsonl")} == {
        f"{one}/plain", f"{one}/asked", f"{two}/host", f"{two}/back"
    }  # fmt: skip
    if kind == "folder":
        warc = b"".join(gzip.decompress(path.read_bytes()) for path in (tmp_path / "data").rglob("*.warc.gz"))
        [sent] = [part for part in warc.split(b"WARC/1.1\r\n") if b"\r\n\r\nGET /asked HTTP/" in part]
        assert b"Firefox" in sent
        assert b"Shoal" not in sent.partition(b"\r\n\r\n")[2]
