"""A spider whose child process returns other results than its handlers yield, as the page's address says."""

from collections.abc import Iterator
from typing import Any

import msgspec

import shoal
from shoal.model.page import Item, ParseResult
from shoal.model.request import pack, unpack
from shoal.parse import child

spider = shoal.Spider("false")

_encode = child._encode
_honest: list[shoal.Request] = []


def link(**fields: Any) -> bytes:
    """Pack a request that is true except for some fields."""
    return pack(msgspec.structs.replace(_honest[0], **fields))


def nested(depth: int) -> bytes:
    return link(data={"x": 0}).replace(b"\xa1x\x00", b"\xa1x" + b"\x91" * depth + b"\x00")


FALSE: dict[str, Any] = {
    # What no request is.
    "junk": lambda result: {"requests": (b"\xc1",)},
    "cut": lambda result: {"requests": (link()[:-3],)},
    "number": lambda result: {"requests": (b"\x05",)},
    "typed": lambda result: {"requests": (msgspec.msgpack.encode({"u": 5}),)},
    "nested": lambda result: {"requests": (nested(100_000),)},
    # What this page cannot have brought.
    "host": lambda result: {"requests": (link(url="http://127.0.9.9:9/x"),)},
    "scheme": lambda result: {"requests": (link(url="file:///etc/passwd"),)},
    "relative": lambda result: {"requests": (link(url="//x"),)},
    "seed": lambda result: {"requests": (link(depth=0),)},
    "origin": lambda result: {"requests": (link(found_on=0),)},
    "chain": lambda result: {"requests": (link(chain=("http://x.test/",) * 9),)},
    "pool": lambda result: {"requests": (link(pool="http-" + "x" * 300),)},
    "path": lambda result: {"requests": (link(url=_honest[0].url + "/a" * 3_000),)},
    "many": lambda result: {"requests": tuple(link(url=f"{_honest[0].url}/{n}") for n in range(10_001))},
    # What is no result.
    "rule": lambda result: {"dropped": {"nonsense": 1}},
    "minus": lambda result: {"dropped": {"trap": -5}},
    "huge": lambda result: {"withheld": 1 << 62},
    "text": lambda result: {"items": (Item("k", b"not JSON"),)},
    "lines": lambda result: {"items": (Item("k", b'{"a":1}\n{"a":2}'),)},
    "list": lambda result: {"items": (Item("k", b"[1]"),)},
}
HARMLESS: dict[str, Any] = {
    "priority": lambda result: {"requests": (link(priority=1 << 60),)},
    "capitals": lambda result: {"requests": (link(url=_honest[0].url.replace("http", "HTTP")),)},
}


def falsify(result: ParseResult) -> bytes:
    """Encode another result than the handler's."""
    if result.requests:
        _honest[:] = [unpack(result.requests[0])]
        told = {**FALSE, **HARMLESS}.get(_honest[0].url.split("/")[-2])
        if told is not None:
            result = msgspec.structs.replace(result, **told(result))
    return _encode(result)


@spider.page()
def page(page: shoal.Page) -> Iterator[Any]:
    child._encode = falsify
    yield {"url": page.url}
    if page.url.endswith("/"):
        yield page.links()
    elif not page.url.endswith("/found"):
        yield page.follow(f"{page.url}/found")
