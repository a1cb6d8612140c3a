"""Documents that cannot be read to their end: what was read is kept, and what is missing is reported."""

import gzip
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.adversary.size import sized
from tests.e2e.command import QUICK, records, shoal

SPIDER = """
import shoal

spider = shoal.Spider("feeds")


@spider.page(r"\\.xml$")
def feed(page):
    yield {"url": page.url, "last": page.xpath("//last/text()").get(), "partial": page.partial}


@spider.page()
def start(page):
    yield page.links()
"""
LONG = sized(11, full=31) << 20  # the default limit of libxml2 is 10 million characters


def long_text() -> bytes:
    """Return a text that compresses by less than the ratio of a bomb."""
    return b"".join(hashlib.sha256(b"%d" % n).hexdigest().encode() * 16 for n in range(LONG // 1024))


DOCUMENTS = {  # the body, and whether all of it can be read
    "whole.xml": (b"<r><a/><last>x</last></r>", True),
    "long.xml": (b"<r><a>" + long_text() + b"</a><last>x</last></r>", True),
    "deep.xml": (b"<r>" + b"<a>" * 300 + b"</a>" * 300 + b"<last>x</last></r>", True),
    "surrogate.xml": (b"<r><a>&#xD800;&#55297;</a><last>x</last></r>", True),
    "deeper.xml": (b"<r>" + b"<a>" * 5000 + b"</a>" * 5000 + b"<last>x</last></r>", False),
    "noisy.xml": (
        b"<r>" + b"<a>x & y</a>" * 200 + b"<a>" * 5000 + b"</a>" * 5000 + b"<last>x</last></r>",
        False,
    ),
    "mismatched.xml": (b"<r><a></b></a><last>x</last></r>", False),
    "roots.xml": (b"<r/><r><last>x</last></r>", False),
    "entities.xml": (
        b"<!DOCTYPE r [<!ENTITY a 'b'>]><r>" + b"<a>" * 300 + b"</a>" * 300 + b"<last>x</last></r>",
        False,
    ),
}
PARTIAL = sorted(name for name, (_, whole) in DOCUMENTS.items() if not whole)


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path[1:]
        if name == "sitemap":  # cut in the middle
            here = f"http://{self.headers['Host']}"
            body, kind = f"<urlset><url><loc>{here}/page</loc></url><url><loc>".encode(), "application/xml"
        elif name in DOCUMENTS:
            body, kind = DOCUMENTS[name][0], "application/xml"
        else:
            body, kind = "".join(f"<a href=/{name}>x</a>" for name in DOCUMENTS).encode(), "text/html"
        self.send_response(404 if name == "robots.txt" else 200)
        if len(body) > 1 << 20:  # decoded, it is larger than a body may be on the wire
            body = gzip.compress(body, 6)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("command", [("crawl",), ("fleet", "-n", "1")], ids=["folder", "fleet"])
def test_pages_that_are_read_in_part_are_counted_logged_and_marked(
    site: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "feeds.py").write_text(SPIDER)
    ran = shoal(
        *(*command, "feeds.py", site, "--sitemap", f"{site}sitemap", "--json"),
        *(*QUICK, "--out", "items.jsonl"),
        cwd=tmp_path,
    )

    assert ran.code == 0, ran.err
    found = {record["url"].removeprefix(site): record for record in records(tmp_path / "items.jsonl")}
    assert sorted(found) == sorted(DOCUMENTS)
    assert sorted(name for name, record in found.items() if record["partial"]) == PARTIAL
    assert sorted(name for name, record in found.items() if record["last"] != "x") == PARTIAL
    assert ran.json["counts"]["dead"] == 0
    assert ran.json["partial"] == len(PARTIAL) + 1  # with the sitemap
    [status] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    assert status["partial"] == len(PARTIAL) + 1
    logs = [ran.err, *(path.read_text() for path in (tmp_path / "shoal-data").rglob("*.log"))]
    assert sum(log.count("page.partial") for log in logs) == len(PARTIAL) + 1
