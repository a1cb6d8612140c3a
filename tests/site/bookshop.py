"""The bookshop of the documentation, with everything that a recipe needs: a login, an API, files, news, quotes.

Pages and listings are those of `books.py`. This server is for few requests: a thread for each connection.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from tests.site.books import BookSite
from tests.site.server import Answer

TITLES = ("Nets", "Lamps", "Knots", "Charts", "Whales", "Tides")
SESSION = "5e55104"
_LOGIN = (
    b'<form method="post"><input name="token" value="t0k3n"><input name="user"><input name="password"></form>'
)
_FIND = (
    b'<form id="subscribe"><input name="mail"></form><form id="find" method="post">'
    b'<input type="hidden" name="shelf" value="sea"><input name="text"></form>'
)
AUTHORS = {"ada": 1815, "charles": 1809, "grace": 1906, "rachel": 1907}
QUOTES = 20  # by these few authors


class Bookshop(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Visit)
        self.books = BookSite(missing=(404, 500))  # each is answered with its number
        self.visits: Counter[str] = Counter()

    def get(self, path: str, cookie: str) -> Answer:
        """Answer a GET; the shop remembers how often each page was asked for, and nothing else."""
        self.visits[path] += 1
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match parts.path.strip("/").split("/"):
            case ["login"]:
                return Answer(200, _LOGIN)
            case ["orders", *number]:
                inside = f"session={SESSION}" in cookie
                return _order(*number) if inside else Answer(302, b"", (("Location", "/login"),))
            case ["shelf"]:
                return Answer(200, _shelf(int(query.get("page", "1"))))
            case ["api", "feed"]:
                return _json(_feed(int(query.get("after", "0"))))
            case ["quotes"]:
                return Answer(200, _quotes())
            case ["authors", name]:
                return Answer(200, f'<h1>{name.title()}</h1><b class="born">{AUTHORS[name]}</b>'.encode())
            case ["find"]:
                return Answer(200, _FIND)
            case ["files"]:
                return Answer(
                    200, b'<a href="/files/prices.pdf">Prices</a><a href="/files/cover.png">Cover</a>'
                )
            case ["files", "prices.pdf"]:
                return Answer(200, b"%PDF-1.4 prices", content_type="application/pdf")
            case ["files", "cover.png"]:
                return Answer(200, b"\x89PNG\r\n\x1a\n cover", content_type="image/png")
            case ["news"]:
                return _tagged('<h1>News</h1><a href="/news/1">1</a><a href="/news/2">2</a>')
            case ["news", "1"]:
                return _tagged("<h1>Sale</h1><p>Nets are cheaper.</p>")
            case ["news", "2"]:
                return _tagged(f"<h1>Weather</h1><p>{('Rain', 'Sun')[self.visits[path] % 2]}.</p>")
            case ["sitemap.xml"]:
                urls = "".join(f"<url><loc>/catalogue/book-{n}/index.html</loc></url>" for n in (1, 2, 3))
                return Answer(200, f"<urlset>{urls}</urlset>".encode(), content_type="application/xml")
            case _:
                return self.books.answer(0, path, 0.0)

    def post(self, path: str, body: bytes) -> Answer:
        match path:
            case "/login":
                form = parse_qs(body.decode())
                right = form == {"token": ["t0k3n"], "user": ["ann"], "password": ["correct horse"]}
                cookie = ("Set-Cookie", f"session={SESSION}; Path=/; HttpOnly")
                return Answer(303, b"", (cookie, ("Location", "/orders"))) if right else Answer(200, _LOGIN)
            case "/api/search":
                asked = json.loads(body)
                found = [title for title in TITLES if asked["text"] in title]
                return _json({"found": found[asked["from"] :][:2], "total": len(found)})
            case "/find":
                form = parse_qs(body.decode())
                found = [title for title in TITLES if form["text"][0] in title and form["shelf"] == ["sea"]]
                return Answer(200, "".join(f"<li>{title}</li>" for title in found).encode())
            case _:
                return Answer(404, b"")


def _order(number: str = "") -> Answer:
    if number:
        return Answer(200, f"<h1>Order {number}</h1><b>{number}0.00</b>".encode())
    return Answer(200, b'<h1>Your orders</h1><a href="/orders/1">1</a><a href="/orders/2">2</a>')


def _shelf(page: int) -> bytes:
    titles = "".join(f"<li>{title}</li>" for title in TITLES[2 * page - 2 :][:2])
    return f"<ul>{titles}</ul><p>Page {page} of {len(TITLES) // 2}</p>".encode()


def _quotes() -> bytes:
    authors = list(AUTHORS)
    return "".join(
        f'<p class="quote"><q>Quote {n}</q> <a href="/authors/{authors[n % len(authors)]}">by</a></p>'
        for n in range(1, QUOTES + 1)
    ).encode()


def _feed(after: int) -> object:
    rest = len(TITLES) > after + 2
    return {"books": [{"title": title} for title in TITLES[after:][:2]], "next": after + 2 if rest else None}


def _json(value: object) -> Answer:
    return Answer(200, json.dumps(value).encode(), content_type="application/json")


def _tagged(text: str) -> Answer:
    return Answer(200, text.encode(), (("ETag", f'"{sha256(text.encode()).hexdigest()[:8]}"'),))


class _Visit(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together
    server: Bookshop

    def do_GET(self) -> None:
        self._send(self.server.get(self.path, self.headers.get("Cookie", "")))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._send(self.server.post(self.path, body))

    def _send(self, answer: Answer) -> None:
        tags = [value for name, value in answer.headers if name == "ETag"]
        unchanged = tags and self.headers.get("If-None-Match") in tags
        self.send_response(304 if unchanged else answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if not unchanged:
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(b"" if unchanged else answer.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def open_bookshop() -> Iterator[str]:
    """Serve the shop while the block runs; gives its address and port."""
    with Bookshop() as shop:
        Thread(target=shop.serve_forever, daemon=True).start()
        yield "{}:{}".format(*shop.server_address[:2])
        shop.shutdown()
