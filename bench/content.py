"""What reading a page costs beyond parsing it: decoding, metadata, near-duplicates; sitemaps and feeds.

python bench/content.py [--book FOLDER]

FOLDER holds a folder of HTML per language, such as usr/share/doc/debian-handbook/html of the Debian package
debian-handbook (apt-get download, dpkg -x). With it: how often the encoding of a page that names none is
guessed, by us and by whatever detectors are installed, and how far apart pages are that are no duplicates.
"""

import argparse
import itertools
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from shoal.model.traps.simhash import NearDuplicates, distance, simhash
from shoal.spider.feeds.feed import read_feed
from shoal.spider.feeds.sitemap import Sitemap
from shoal.spider.html.visible_text import visible_text
from shoal.spider.metadata.article import extract_article, extract_markdown
from shoal.spider.metadata.page_metadata import read_metadata
from shoal.spider.text.charset_guess import guess_charset
from shoal.spider.text.decoding import decode
from shoal.spider.text.encodings import decode_with

PAGE_BYTES = 12_000
URL = "https://books.example/1"
HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A book</title>
<meta name="description" content="About it"><meta property="og:title" content="A book">
<link rel="canonical" href="/1"><script type="application/ld+json">
{"@type": "Book", "name": "A book", "datePublished": "2024-05-06"}</script></head><body>
"""
LEGACY = """
    ca-ES cp1252; da-DK cp1252; de-DE cp1252; es-ES cp1252; fr-FR cp1252; it-IT cp1252; nb-NO cp1252;
    nl-NL cp1252; pt-BR cp1252; sv-SE cp1252; cs-CZ cp1250 iso8859-2; pl-PL cp1250 iso8859-2; hr-HR cp1250;
    ro-RO cp1250 iso8859-16; tr-TR cp1254; vi-VN cp1258; ru-RU cp1251 koi8-r iso8859-5; fa-IR cp1256;
    el-GR cp1253 iso8859-7; ar-MA cp1256 iso8859-6; ja-JP cp932 euc_jp iso2022_jp; ko-KR cp949; zh-CN gbk;
    zh-TW big5hkscs
"""
ENTRIES = 10_000
SITEMAP = f"""<urlset>{
    "".join(f"<url><loc>{URL}?p={n}&amp;q=1</loc><lastmod>2024-05-06</lastmod></url>" for n in range(ENTRIES))
}</urlset>""".encode()
FEED = f"""<rss><channel>{
    "".join(f"<item><title>{n}</title><link>{URL}</link><guid>{n}</guid></item>" for n in range(ENTRIES))
}</channel></rss>""".encode()


def make_page(seed: int) -> bytes:
    """Make a page with as much markup as text."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(800)]
    lines = [HEAD]
    while sum(map(len, lines)) < PAGE_BYTES:
        text = " ".join(rng.choices(words, k=12))
        lines.append(f'<div class="card"><p>{text}</p><a href="/p/{rng.randint(0, 9999)}">naïve</a></div>\n')
    return "".join(lines).encode()[: PAGE_BYTES - 1]


def microseconds(call: Callable[[], object], times: int = 200) -> float:
    """Return the CPU time of one call in the best of several rounds."""
    rounds = []
    for _ in range(9):
        start = time.process_time()
        for _ in range(times):
            call()
        rounds.append(time.process_time() - start)
    return min(rounds) / times * 1e6


def costs() -> Iterator[tuple[str, float]]:
    body = make_page(1)
    text = body.decode()
    tree = LexborHTMLParser(text)
    unlabelled = body.replace(b'<meta charset="utf-8">', b"")
    seen = visible_text(tree)
    yield "parse, for comparison", microseconds(lambda: LexborHTMLParser(text))
    yield "bare decoding of UTF-8", microseconds(body.decode)
    yield "decode, encoding in the header", microseconds(lambda: decode(body, "text/html; charset=utf-8"))
    yield "decode, encoding in the page", microseconds(lambda: decode(body))
    yield "decode, UTF-8 that says nothing", microseconds(lambda: decode(unlabelled))
    yield "metadata", microseconds(lambda: read_metadata(tree, URL))
    yield "visible text", microseconds(lambda: visible_text(tree))
    yield f"simhash of {len(seen.split())} words", microseconds(lambda: simhash(seen))
    memory = NearDuplicates()
    rng = random.Random(2)
    yield "seen this close?", microseconds(lambda: memory.seen("books.example", rng.getrandbits(64)), 5_000)
    if find_spec("trafilatura"):
        yield "article", microseconds(lambda: extract_article(text, URL), 5)
        yield "markdown", microseconds(lambda: extract_markdown(text, URL), 5)
    yield "a URL of a sitemap", microseconds(lambda: list(Sitemap(SITEMAP)), 1) / ENTRIES
    yield "an entry of a feed", microseconds(lambda: read_feed(FEED), 1) / ENTRIES


def detectors() -> dict[str, Callable[[bytes], str]]:
    found: dict[str, Callable[[bytes], str]] = {
        "shoal": lambda body: decode_with(body, guess_charset(body) or "windows-1252")[0]
    }
    if find_spec("cchardet"):
        uchardet = import_module("cchardet")
        found["cchardet"] = lambda body: _decoded(body, uchardet.detect(body)["encoding"])
    if find_spec("charset_normalizer"):
        normalizer = import_module("charset_normalizer")
        found["charset_normalizer"] = lambda body: str(normalizer.from_bytes(body).best() or "")
    return found


def _decoded(body: bytes, codec: str | None) -> str:
    try:
        return body.decode(codec or "cp1252", "replace")
    except LookupError:  # some guesses are codecs that Python does not have
        return ""


def unlabelled_pages(book: Path) -> Iterator[tuple[bytes, str]]:
    for row in LEGACY.split(";"):
        language, *codecs = row.split()
        for path in sorted((book / language).rglob("*.html"))[5:125:6][:12]:
            html = re.sub(r"<\?xml.*?\?>|<meta[^>]*charset[^>]*>", "", path.read_text())[:PAGE_BYTES]
            for codec in codecs:
                body = html.encode(codec, "xmlcharrefreplace")
                if not body.isascii() or codec == "iso2022_jp":
                    yield body, body.decode(codec)


def judge_detection(book: Path) -> None:
    pages = list(unlabelled_pages(book))
    for name, detect in detectors().items():
        start = time.process_time()
        right = sum(detect(body) == text for body, text in pages)
        cost = (time.process_time() - start) / len(pages) * 1e6
        print(
            f"{name:20} {right} of {len(pages)} pages right, {right / len(pages):.1%}, {cost:.0f} us a page"
        )


def judge_distances(book: Path) -> None:
    paths = sorted((book / "en-US").glob("*.html"))
    texts = [visible_text(LexborHTMLParser(path.read_text())) for path in paths]
    hashes = {text: found for text in texts if (found := simhash(text)) is not None}
    apart = Counter(distance(one, other) for one, other in itertools.combinations(hashes.values(), 2))
    print(f"{len(hashes)} pages of one manual are {min(apart)} to {max(apart)} bits apart")
    rng = random.Random(1)
    for changes in (1, 3, 10, 30):
        moved = [
            distance(found, simhash(changed(text, changes, rng)) or 0)
            for text, found in hashes.items()
            for _ in range(5)
        ]
        near = sum(bits <= 3 for bits in moved) / len(moved)
        print(f"with {changes} words changed, {near:.0%} stay within 3 bits")


def changed(text: str, changes: int, rng: random.Random) -> str:
    words = text.split()
    for place in rng.sample(range(len(words)), min(changes, len(words))):
        words[place] = f"changed{rng.random()}"
    return " ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--book", type=Path, help="a folder of HTML per language")
    book = parser.parse_args().book
    print(f"CPU per page of {PAGE_BYTES} bytes, Python {sys.version.split()[0]}")
    for what, cost in costs():
        print(f"  {what:36} {cost:10.1f} us")
    if book:
        judge_detection(book)
        judge_distances(book)


if __name__ == "__main__":
    main()
