"""Crawling again: pages that have not changed are not sent again, and their items are there all the same."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.e2e.command import QUICK, shoal

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the package warns about itself when it is imported
    from fastwarc.warc import ArchiveIterator, WarcRecordType

PAGES = {
    "/": '<h1>Home</h1><a href="/tagged">1</a><a href="/dated">2</a><a href="/plain">3</a><a href="/news">4</a>',
    "/tagged": "<h1>Has an ETag</h1>",
    "/dated": "<h1>Has a date</h1>",
    "/plain": "<h1>Has neither</h1>",
    "/news": "<h1>Edition {edition}</h1>",
}
DATE = "Sun, 01 Nov 2026 10:00:00 GMT"


class Server(ThreadingHTTPServer):
    edition = 1

    def __init__(self) -> None:
        self.answers: list[tuple[str, int]] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        text = PAGES.get(self.path, "").format(edition=self.server.edition)
        tag = f'"{hash((self.path, text))}"' if self.path in ("/tagged", "/news") else ""
        fresh = (tag and self.headers["If-None-Match"] == tag) or (
            self.path == "/dated" and self.headers["If-Modified-Since"] == DATE
        )
        status = 404 if not text else 304 if fresh else 200
        self.server.answers.append((self.path, status))
        self.send_response(status)
        if tag:
            self.send_header("ETag", tag)
        if self.path == "/dated":
            self.send_header("Last-Modified", DATE)
        if status != 304:
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if status == 200:
            self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[tuple[Server, str]]:
    with Server() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server, f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def crawl(url: str, folder: Path, *flags: str) -> list[str]:
    """Crawl, and return the headings that came out, sorted."""
    ran = shoal(
        "crawl", url, "--crawl", "c", "--item", "h1=h1", "--out", "o.jsonl", *QUICK, *flags, cwd=folder
    )
    assert ran.code == 0, ran.err
    return sorted(json.loads(line)["h1"] for line in (folder / "o.jsonl").read_text().splitlines())


def kinds(folder: Path) -> list[str]:
    """Return what the archive holds beside requests, in order."""
    found = []
    for segment in sorted((folder / "shoal-data").rglob("*.warc.gz")):
        with segment.open("rb") as stream:
            pages = WarcRecordType.response | WarcRecordType.revisit
            for record in ArchiveIterator(stream, record_types=pages, parse_http=False):
                path = "/" + record.headers["WARC-Target-URI"].split("/", 3)[3]
                found.append(f"{record.headers['WARC-Type']} {path}")
    return found


def test_unchanged_pages_are_kept_as_revisits_and_still_give_their_items(tmp_path: Path) -> None:
    with serving() as (server, url):
        first = crawl(url, tmp_path)
        server.answers.clear()
        server.edition = 2

        again = crawl(url, tmp_path, "--fresh")

        assert first == ["Edition 1", "Has a date", "Has an ETag", "Has neither", "Home"]
        assert again == ["Edition 2", "Has a date", "Has an ETag", "Has neither", "Home"]
        answers = dict(server.answers)
        assert (answers["/tagged"], answers["/dated"], answers["/news"]) == (304, 304, 200)
        later = kinds(tmp_path)[len(first) :]
        assert {"revisit /tagged", "revisit /dated", "response /news"} <= set(later)
        assert shoal("verify", "--deep", cwd=tmp_path).code == 0


def test_a_third_crawl_asks_with_what_the_second_learnt(tmp_path: Path) -> None:
    with serving() as (server, url):
        crawl(url, tmp_path)
        server.edition = 2
        crawl(url, tmp_path, "--fresh")
        server.answers.clear()

        third = crawl(url, tmp_path, "--fresh")

        assert "Edition 2" in third
        answers = dict(server.answers)
        assert (answers["/tagged"], answers["/dated"], answers["/news"]) == (304, 304, 304)


@pytest.mark.parametrize("flag", ["--again", "--fresh"])
def test_an_output_that_cannot_be_opened_costs_nothing_of_the_last_generation(
    tmp_path: Path, flag: str
) -> None:
    with serving() as (server, url):
        command = ("crawl", url, *QUICK, "--out", "pages.jsonl")
        assert shoal(*command, cwd=tmp_path).code == 0
        before, answers = (tmp_path / "pages.jsonl").read_bytes(), len(server.answers)
        (tmp_path / ".pages.jsonl.new").touch()  # where the draft of the output would be
        refused = shoal(*command, flag, cwd=tmp_path)
        again = shoal(*command, cwd=tmp_path)

        assert refused.code == 1
        assert "pages.jsonl" in refused.complaint
        assert again.code == 0
        assert "Nothing to do" in again.out
        assert len(server.answers) == answers
        assert (tmp_path / "pages.jsonl").read_bytes() == before
        assert shoal("verify", cwd=tmp_path).code == 0

        (tmp_path / ".pages.jsonl.new").unlink()
        assert shoal(*command, flag, cwd=tmp_path).code == 0
