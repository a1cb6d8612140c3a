"""Pages that no page links to, found through an index of sitemaps."""

import asyncio
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.e2e.command import QUICK, records, shoal
from tests.servers.redis import valkey

PAGES = 30


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.answer(f"http://{self.headers['Host']}")
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html" if "." not in self.path else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, here: str) -> bytes:
        if self.path == "/robots.txt":
            return f"User-agent: *\nDisallow: /robots\nSITEMAP : {here}/index.xml # all\nSitemap:\n".encode()
        if self.path == "/index.xml":
            return f"<sitemapindex><sitemap><loc>{here}/map.xml.gz</loc></sitemap></sitemapindex>".encode()
        if self.path == "/map.xml.gz":
            urls = "".join(f"<url><loc>{here}/page/{n}</loc></url>" for n in range(PAGES))
            return gzip.compress(f"<urlset>{urls}</urlset>".encode())
        return b"<title>A page</title>" if self.path == "/" or self.path.startswith("/page/") else b""

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_an_index_of_sitemaps_is_crawled_with_everything_that_it_lists(site: str, tmp_path: Path) -> None:
    ran = shoal(
        *("crawl", site, "--sitemap", f"{site}index.xml", "--follow", "/page/"),
        *(*QUICK, "--out", "items.jsonl", "--json"),
        cwd=tmp_path,
    )

    assert ran.code == 0, ran.err
    assert {record["url"] for record in records(tmp_path / "items.jsonl")} == {
        site,
        *(f"{site}page/{n}" for n in range(PAGES)),
    }
    assert ran.json["counts"]["dead"] == 0


SPIDER = """
import shoal

spider = shoal.Spider("auto", start="{site}", sitemaps="auto", follow="/page/")


@spider.page()
def page(page):
    yield {{"url": page.url}}
"""


def automatic(site: str, folder: Path, kind: str) -> tuple[str, ...]:
    if kind == "flag":
        return site, "--sitemap", "auto", "--follow", "/page/"
    (folder / "auto.py").write_text(SPIDER.format(site=site))
    return ("auto.py",)


@pytest.mark.parametrize("kind", ["flag", "spider"])
async def test_a_fleet_finds_the_sitemaps_that_robots_txt_names(site: str, tmp_path: Path, kind: str) -> None:
    async with valkey(tmp_path / "valkey") as redis:
        store = ("--store", redis.dsn)
        target = automatic(site, tmp_path, kind)
        sent = await asyncio.to_thread(
            shoal, "submit", *target, *QUICK, *store, "--out", "items.jsonl", cwd=tmp_path
        )
        assert sent.code == 0, sent.err
        ran = await asyncio.to_thread(
            shoal, "worker", *store, "--allow-private", "--until-done", cwd=tmp_path
        )
    assert ran.code == 0, ran.err
    assert {record["url"] for record in records(tmp_path / "items.jsonl")} == {
        site,
        *(f"{site}page/{n}" for n in range(PAGES)),
    }


@pytest.mark.parametrize("kind", ["flag", "spider"])
def test_the_sitemaps_that_robots_txt_names_are_found(site: str, tmp_path: Path, kind: str) -> None:
    target = automatic(site, tmp_path, kind)
    ran = shoal("crawl", *target, *QUICK, "--out", "items.jsonl", "--json", cwd=tmp_path)

    assert ran.code == 0, ran.err
    assert {record["url"] for record in records(tmp_path / "items.jsonl")} == {
        site,
        *(f"{site}page/{n}" for n in range(PAGES)),
    }
    assert (ran.json["counts"]["dead"], ran.json["counts"]["filtered"]) == (0, 0)


def test_auto_needs_a_start_url(tmp_path: Path) -> None:
    (tmp_path / "seeds").write_text("http://127.0.0.1:1/\n")
    ran = shoal("crawl", "--seeds", "seeds", "--sitemap", "auto", *QUICK, cwd=tmp_path)
    assert ran.code == 1
    assert "--sitemap auto needs start URLs" in ran.complaint
