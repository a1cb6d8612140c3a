"""What a spider can do: arguments, secrets, log-in, JSON, polling, failed statuses and item hooks, on both stores."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.e2e.command import QUICK, records, shoal

SPIDER = Path(__file__).parents[1] / "spiders" / "account.py"
SECRETS = {"SHOP_PASSWORD": "pw-of-login", "SHOP_API_KEY": "key-of-shop"}
SEEN_BY_SPIDERS = {**SECRETS, "SHOAL_PARSE_ENVIRONMENT": ",".join(SECRETS)}
LOGIN = """<form id=login method=post action=/session><input type=hidden name=token value=t1>
<input name=user><input name=password type=password></form>"""
HOME = '<h1>Hello</h1><a href="/missing">missing</a><a href="/other">also missing</a>'
READY_AFTER = 2  # answers that the job is not ready yet


class Shop:
    """A shop with a log-in; it records method, path, key and body of every request."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, bytes]] = []
        self.polls = 0

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], str]:
        cookies = handler.headers.get("Cookie", "")
        logged_in = "sid=1" in cookies
        match handler.command, handler.path:
            case "GET", "/login":
                return 200, {}, LOGIN
            case "POST", "/session" if body == b"token=t1&user=ann&password=pw-of-login":
                return 303, {"Location": "/home", "Set-Cookie": "sid=1"}, ""
            case "GET", "/home" if logged_in:
                return 200, {}, HOME
            case "POST", "/api" if body == b'{"q":[1]}' and logged_in:
                if handler.headers["Authorization"] == "Basic bWU6cHctb2YtYXBp":
                    return 200, {"Content-Type": "application/json"}, '{"numbers": [1, 2, 3]}'
            case "GET", "/job":
                self.polls += 1
                return 200, {"Content-Type": "text/plain"}, "ready" if self.polls > READY_AFTER else "waiting"
        return 404, {}, f"nothing at {handler.path}"


@pytest.fixture
def shop() -> Iterator[tuple[str, Shop]]:
    served = Shop()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path != "/robots.txt":
                served.seen.append((self.command, self.path, self.headers.get("X-Api-Key", ""), body))
            status, headers, text = served.answer(self, body)
            self.send_response(status)
            for name, value in {"Content-Type": "text/html", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", served
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("command", [("crawl",), ("fleet", "-n", "1")], ids=["folder", "fleet"])
def test_a_spider_logs_in_asks_an_api_polls_and_reads_what_is_gone(
    command: tuple[str, ...], shop: tuple[str, Shop], tmp_path: Path
) -> None:
    url, served = shop
    arguments = ("-a", "user=ann", "-a", "polls=5")
    run = (*command, f"{SPIDER}:account", f"{url}/login", *arguments, *QUICK, "--out", "items.jsonl")
    ran = shoal(*run, "--json", cwd=tmp_path, env=SEEN_BY_SPIDERS)
    assert ran.code == 0, ran.err
    assert ran.json["crawl"] == "account@polls=5,user=ann"
    assert ran.json["dropped_items"] == {"too many": 2}
    items = sorted(records(tmp_path / "items.jsonl"), key=lambda item: item["kind"])
    assert items == [
        {"kind": "home", "title": "Hello", "found_on": f"{url}/login"},
        {"kind": "job", "text": "ready", "left": 5 - READY_AFTER},
        {"kind": "missing", "status": 404, "found_on": f"{url}/home", "text": "nothing at /missing"},
        {"kind": "number", "number": 1},
    ]
    assert served.polls == READY_AFTER + 1
    assert {key for _, _, key, _ in served.seen} == {"key key-of-shop"}
    assert (ran.json["counts"]["gone"], ran.json["counts"]["dead"]) == (1, 0)

    status = shoal("status", "--json", cwd=tmp_path)
    [crawl] = status.json["crawls"]
    assert crawl["arguments"] == {"user": "ann", "polls": "5"}
    assert crawl["dropped_items"] == {"too many": 2}
    # What was secret is neither in the store nor in the archive, the outputs or the logs. Redis keeps its log
    # of changes for a while: there a posted form remains, but nothing that belongs to the crawl's record.
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert [file for file in files if b"key-of-shop" in file.read_bytes()] == []
    assert [f for f in files if f.suffix != ".aof" and b"pw-of-login" in f.read_bytes()] == []
    assert not any(secret in ran.err for secret in SECRETS.values())

    name = ("--crawl", ran.json["crawl"])
    other = shoal(
        *(*command, str(SPIDER), f"{url}/login", "-a", "user=bob", *name, *QUICK),
        cwd=tmp_path,
        env=SEEN_BY_SPIDERS,
    )
    assert other.code == 1
    assert "was started with -a polls=5 -a user=ann, not with -a user=bob" in other.complaint
    if command[0] == "crawl":
        again = shoal("reparse", f"{SPIDER}:account", *arguments, cwd=tmp_path, env=SEEN_BY_SPIDERS)
        assert again.code == 0, again.err
        assert "no difference in 4 items" in again.out
        assert 'dropped by item hooks: 2 items ("too many" 2)' in again.out


def test_a_module_in_the_folder_of_the_command_is_found(shop: tuple[str, Shop], tmp_path: Path) -> None:
    package = tmp_path / "project"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "spiders.py").write_text(
        "import shoal\n\n\ndef job(name: str = 'job') -> shoal.Spider:\n"
        "    spider = shoal.Spider(name)\n    spider.page(lambda page: {'text': page.text})\n    return spider\n"
    )
    url, _ = shop
    ran = shoal(
        *("crawl", "project.spiders:job", f"{url}/job", "-a", "name=poll", *QUICK, "--json"), cwd=tmp_path
    )
    assert ran.code == 0, ran.err
    assert (ran.json["crawl"], ran.json["items"]) == ("poll@name=poll", 1)


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (
            ("-a", "polls=5"),
            "argument user is missing: add -a user=...; it takes user (str), polls (int, default '3')",
        ),
        (("-a", "user=a", "-a", "poll=5"), "unknown argument 'poll'; did you mean polls?"),
        (("-a", "user=a"), "the environment variable SHOP_API_KEY is not visible to the spider"),
    ],
)
def test_what_is_missing_or_not_visible_is_said_before_anything_starts(
    typed: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    ran = shoal("crawl", str(SPIDER), "http://127.0.0.1:1/", *typed, *QUICK, cwd=tmp_path, env=SECRETS)
    assert ran.code == 1
    assert complaint in ran.complaint
    assert not (tmp_path / "shoal-data").exists()
