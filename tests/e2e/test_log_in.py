"""Log-in that starts at the protected page: the site redirects to its form, and back after the form was sent."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

import pytest
from tests.e2e.command import QUICK, records, shoal
from tests.servers.redis import valkey

SPIDER = """
import shoal
from urllib.parse import urlencode, urljoin

spider = shoal.Spider("orders", "{start}")

@spider.page()
def page(page):
    if page.css("form"):
        fields = {{one.attrib["name"]: one.attrib.get("value", "") for one in page.css("input")}}
        yield shoal.Request(
            url=urljoin(page.url, page.css("form").attrib["action"]),
            method="POST",
            headers={{"Content-Type": "application/x-www-form-urlencoded"}},
            body=urlencode({{**fields, "password": "{password}"}}).encode(),
        )
        return
    if page.css("h1"):
        yield {{"order": page.css("h1::text").get()}}
    yield page.links()
"""
ORDERS = '<a href="/order/1">1</a><a href="/order/2">2</a><a href="/orders">all</a>'


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.nonce = 0
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    """Every page but the form needs the cookie; every visit without it gets a new form."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.asked[f"GET {self.path.partition('?')[0]}"] += 1
        known = "session=yes" in (self.headers["Cookie"] or "")
        if self.path == "/robots.txt":
            self.respond(404)
        elif self.path.startswith("/welcome"):
            self.respond(200, '<a href="/orders">continue</a>')
        elif self.path.startswith("/login"):
            self.respond(
                200, f'<form action="{self.path}"><input name="nonce" value="{self.server.nonce}"></form>'
            )
        elif not known:
            self.server.nonce += 1
            self.respond(302, location=f"/login?n={self.server.nonce}&next={self.path}")
        elif self.path == "/orders":
            self.respond(200, ORDERS)
        else:
            self.respond(200, f"<h1>Order {self.path[-1]}</h1>{ORDERS}")

    def do_POST(self) -> None:
        self.server.asked["POST /login"] += 1
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        cookie = "session=yes" if form["password"] != ["wrong"] else ""
        if form["password"] == ["link"]:
            self.respond(200, '<a href="/orders">continue</a>', cookie=cookie)
            return
        self.respond(302, location="/orders", cookie=cookie)

    def respond(self, status: int, text: str = "", *, location: str = "", cookie: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        if cookie:
            self.send_header("Set-Cookie", f"{cookie}; Path=/")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[tuple[Server, str]]:
    with Server() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server, f"http://127.0.0.1:{server.server_address[1]}/orders"
        server.shutdown()


@pytest.fixture(params=["folder", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "folder":
        yield "store"
        return
    async with valkey(tmp_path / "server") as running:
        yield running.dsn


@pytest.mark.parametrize("password", ["right", "link"])
def test_log_in_that_starts_at_the_protected_page_yields_its_items(
    site: tuple[Server, str], store: str, password: str, tmp_path: Path
) -> None:
    server, start = site
    (tmp_path / "orders.py").write_text(SPIDER.format(start=start, password=password))

    ran = shoal("crawl", "orders.py", *QUICK, "--store", store, "--out", "o.jsonl", cwd=tmp_path)

    assert ran.code == 0, ran.err
    assert sorted(one["order"] for one in records(tmp_path / "o.jsonl")) == ["Order 1", "Order 2"]
    asked = {"GET /orders": 2, "GET /login": 1, "POST /login": 1, "GET /order/1": 1, "GET /order/2": 1}
    assert {path: number for path, number in server.asked.items() if "robots" not in path} == asked
    assert shoal("verify", "--deep", "--store", store, cwd=tmp_path).code == 0


def test_trace_shows_redirects_and_forms(site: tuple[Server, str], tmp_path: Path) -> None:
    _, start = site
    (tmp_path / "orders.py").write_text(SPIDER.format(start=start, password="right"))
    assert shoal("crawl", "orders.py", *QUICK, "--out", "o.jsonl", cwd=tmp_path).code == 0
    form = start.replace("/orders", "/login?n=1&next=/orders")

    protected = shoal("trace", start, cwd=tmp_path)
    login = shoal("trace", form, "--json", cwd=tmp_path).json["traces"]

    assert protected.code == 0, protected.err
    assert f"leads to  {form}" in protected.out  # the first time
    assert f"from      {form}   (redirected here)" in protected.out  # the second time
    assert f"the start URL {start} redirected here" in shoal("trace", form, cwd=tmp_path).out
    assert [one["redirected_from"] for one in login] == [[start]]


def test_trace_finds_a_url_that_was_only_sent_as_a_form(site: tuple[Server, str], tmp_path: Path) -> None:
    _, start = site
    text = SPIDER.format(start=start, password="right").replace(
        'attrib["action"])', 'attrib["action"]) + "&sent=1"'
    )
    (tmp_path / "orders.py").write_text(text)
    assert shoal("crawl", "orders.py", *QUICK, "--out", "o.jsonl", cwd=tmp_path).code == 0
    ran = shoal("trace", start.replace("/orders", "/login?n=1&next=/orders&sent=1"), cwd=tmp_path)
    assert ran.out.startswith("POST http"), ran
    assert f"leads to  {start}" in ran.out


def test_log_in_that_never_succeeds_ends(site: tuple[Server, str], store: str, tmp_path: Path) -> None:
    server, start = site
    (tmp_path / "orders.py").write_text(SPIDER.format(start=start, password="wrong"))

    ran = shoal("crawl", "orders.py", *QUICK, "--store", store, "--out", "o.jsonl", cwd=tmp_path)

    assert ran.out.startswith("Finished"), ran.err
    assert records(tmp_path / "o.jsonl") == []
    assert server.asked["GET /orders"] == 2  # a form with another number each time does not make it endless
    assert server.asked["POST /login"] <= 2
