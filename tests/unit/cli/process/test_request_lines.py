import json
import logging
from typing import Any

import pytest

from shoal.cli.process.log_format import JsonFormatter, LogFormatter, TerminalFormatter
from shoal.cli.process.request_lines import REQUESTS, request_line

URL = "https://shop.example/product/7.html"
LISTING = "https://shop.example/category/nets/"

LINES: list[tuple[str, dict[str, object], str]] = [
    (
        "request.done",
        {"status": 200, "url": URL, "from": LISTING, "ms": 31, "bytes": 1234},
        f"200     31 ms   1.2 kB  {URL}  from /category/nets/",
    ),
    (
        "request.redirected",
        {"status": 301, "url": URL, "ms": 30, "bytes": 0, "to": "https://other.example/"},
        f"301     30 ms      0 B  {URL}  -> https://other.example/",
    ),
    (
        "request.gone",
        {"status": 404, "url": URL, "ms": 3, "bytes": 9},
        f"404      3 ms      9 B  {URL}  gone",
    ),
    (
        "request.retried",
        {
            "status": 0,
            "url": URL,
            "attempt": 2,
            "ms": 5000,
            "failure": "timeout",
            "reason": "first byte",
            "retry_in_s": 4.1,
        },
        f"---   5000 ms           {URL}  attempt 2  timeout: first byte; retry in 4.1 s",
    ),
    (
        "request.failed",
        {
            "status": 400,
            "url": URL,
            "method": "POST",
            "ms": 3,
            "bytes": 0,
            "failure": "http_error",
            "reason": "status 400",
        },
        f"400      3 ms      0 B  {URL}  POST  http_error: status 400; given up",
    ),
    (
        "request.filtered",
        {"status": 0, "url": URL, "ms": 0, "rule": "robots", "reason": "robots.txt disallows it"},
        f"---      0 ms           {URL}  filtered by robots: robots.txt disallows it",
    ),
    ("item.found", {"url": URL, "item": '{"sku":"a"}'}, '      item  {"sku":"a"}'),
    ("link.skipped", {"url": URL, "rule": "scope", "from": LISTING}, f"      skip  scope  {URL}"),
    (
        "page.parsed",
        {"url": URL, "items": 1, "links": 2, "duplicates": 30, "filtered_scope": 3, "filtered_trap": 1},
        f"      page  1 item, 2 new links, 30 duplicates, filtered: scope 3, trap 1  {URL}",
    ),
]


@pytest.mark.parametrize(("event", "facts", "line"), LINES)
def test_a_request_is_one_line_of_columns(event: str, facts: dict[str, object], line: str) -> None:
    assert request_line(event, facts) == line


def record(message: str, **fields: Any) -> logging.LogRecord:
    name = fields.pop("name", "shoal.engine")
    return logging.makeLogRecord(
        {"msg": message, "name": name, "levelname": "INFO", "created": 1_700_000_000.9, **fields}
    )


def test_a_line_cannot_steer_the_terminal() -> None:
    evil = record("request.done", name=REQUESTS, url="https://a.test/\x1b[2J", status=200, ms=1, bytes=1)
    assert "\x1b" not in TerminalFormatter().format(evil)


def test_a_traceback_has_real_lines_on_a_terminal_and_one_line_in_a_file() -> None:
    failed = record("page.parse_error", url=URL, traceback="books.py:3 in book\n  price()\n\x1b[2J")
    assert TerminalFormatter().format(failed).splitlines() == [
        f"2023-11-14T22:13:20Z info page.parse_error url={URL}",
        "    books.py:3 in book",
        "      price()",
        "    \\x1b[2J",
    ]
    assert len(LogFormatter().format(failed).splitlines()) == 1


def test_json_lines_have_time_level_event_and_fields() -> None:
    line = JsonFormatter().format(record("host.slow", host="a.test", factor=1.5, why=ValueError("x")))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20Z",
        "level": "info",
        "event": "host.slow",
        "host": "a.test",
        "factor": 1.5,
        "why": "x",
    }
