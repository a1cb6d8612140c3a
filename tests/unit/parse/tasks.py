"""Pages to parse, made up."""

from shoal.model.page import ParseTask
from shoal.model.request import Request


def task(number: int, path: str = "", body: bytes = b"<title>page</title>") -> ParseTask:
    url = f"http://a.test/{path}"
    headers = (("content-type", "text/html; charset=utf-8"),)
    return ParseTask(number, number, Request(url=url), url, 200, headers, body, 0.0)
