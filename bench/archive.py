"""What archiving costs: CPU per page for writing and reading, beside warcio doing the same job.

Run as `python -m bench.archive [--pages 1000] [--profile]`.
"""

import argparse
import cProfile
import io
import itertools
import pstats
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from isal import isal_zlib
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from shoal.archive import ArchiveReader, ArchiveWriter, SegmentFolder, WriteRules
from shoal.model.page import PageRef, Response
from shoal.model.request import Request

PAGE_BYTES = 12_000
BATCH = 64  # pages a group commit
SENT = (
    ("Host", "books.example"),
    ("User-Agent", "Shoal/0.1.0 (+https://shoal.example/bot)"),
    ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Cookie", "session=abcdef"),
)
HEADERS = (
    ("server", "nginx/1.27.0"),
    ("date", "Sat, 15 Nov 2025 20:40:00 GMT"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-length", "12000"),
    ("last-modified", "Sat, 15 Nov 2025 20:40:00 GMT"),
    ("etag", 'W/"5f3e-abc"'),
    ("vary", "accept-encoding"),
)


def make_pages(count: int, *, encoded: bool) -> list[tuple[Request, Response]]:
    """Make distinct pages that compress about as well as real ones."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(800)]
    pages = []
    for number in range(count):
        url = f"https://books.example/catalogue/some-book-title_{number}/index.html"
        lines = ["<html><body>"]
        while sum(map(len, lines)) < PAGE_BYTES:
            text = " ".join(rng.choices(words, k=8))
            lines.append(f'<div class="card"><a href="/p/{rng.randint(0, 99_999)}.html">{text}</a></div>\n')
        body = "".join(lines).encode()[:PAGE_BYTES]
        wire = isal_zlib.compress(body, 2, 31) if encoded else body
        headers = (*HEADERS, ("content-encoding", "gzip")) if encoded else HEADERS
        response = Response(url, 200, headers, body, wire, 1_763_239_200.5 + number / 1000, 0.1, "192.0.2.7")
        pages.append((Request(url=url), response))
    return pages


def cpu_per_page(job: Callable[[], object], pages: int, *, rounds: int = 5) -> float:
    """Return the best of some rounds, in microseconds: the rest is the machine's noise."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        job()
        best = min(best, time.process_time() - start)
    return best / pages * 1e6


def write(folder: Path, pages: Sequence[tuple[Request, Response]]) -> list[PageRef]:
    writer = ArchiveWriter.open(SegmentFolder(folder), None, WriteRules(crawl="bench"))
    refs = []
    for number, (request, response) in enumerate(pages, 1):
        refs.append(writer.append(request, SENT, response)[0])
        if number % BATCH == 0:
            writer.flush()
    writer.close()
    return refs


def write_with_warcio(pages: Sequence[tuple[Request, Response]]) -> None:
    writer = WARCWriter(io.BytesIO(), gzip=True, warc_version="1.1")
    for request, response in pages:
        head = StatusAndHeaders("200 OK", list(response.headers), protocol="HTTP/1.1")
        answer = writer.create_warc_record(
            response.url, "response", payload=io.BytesIO(response.wire), http_headers=head
        )
        head = StatusAndHeaders(f"GET {request.url}", list(SENT), protocol="HTTP/1.1", is_http_request=True)
        asked = writer.create_warc_record(request.url, "request", http_headers=head)
        writer.write_request_response_pair(asked, answer)


def measure(pages: Sequence[tuple[Request, Response]], folder: Path) -> str:
    """Return a line of figures."""
    rounds = itertools.count()
    writing = cpu_per_page(lambda: write(folder / f"write-{next(rounds)}", pages), len(pages))
    refs = write(folder / "read", pages)
    stored = sum(path.stat().st_size for path in (folder / "read").iterdir()) / len(pages)
    reader = ArchiveReader(
        SegmentFolder(folder / "read"), lambda wire, encoding, size: isal_zlib.decompress(wire, 31)
    )
    reading = cpu_per_page(lambda: [reader.read(ref) for ref in refs], len(pages))
    going = cpu_per_page(lambda: sum(1 for _ in reader.pages()), len(pages))
    peer = cpu_per_page(lambda: write_with_warcio(pages), len(pages), rounds=2)
    gzip = cpu_per_page(lambda: [isal_zlib.compress(page.body, 1, 31) for _, page in pages], len(pages))
    return (
        f"append {writing:5.1f} µs   read {reading:5.1f} µs   iterate {going:5.1f} µs   {stored:5.0f} bytes"
        f" a page   warcio writes in {peer:4.0f} µs ({peer / writing:.1f} x)   gzip alone: {gzip:.1f} µs"
    )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--pages", type=int, default=1000)
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    for encoded in (False, True):
        pages = make_pages(chosen.pages, encoded=encoded)
        with tempfile.TemporaryDirectory() as scratch:
            if chosen.profile:
                with cProfile.Profile() as profile:
                    write(Path(scratch, "profile"), pages)
                pstats.Stats(profile).sort_stats("tottime").print_stats(15)
            print(f"{'gzip' if encoded else 'plain':5} on the wire:  {measure(pages, Path(scratch))}")


if __name__ == "__main__":
    main()
