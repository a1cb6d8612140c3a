"""Records failures, and continues where the failure says so."""

import time
from collections.abc import Iterator
from typing import Any

import shoal

spider = shoal.Spider("hooks")


@spider.page()
def page(page: shoal.Page) -> Iterator[Any]:
    yield from page.links(data={"from": page.url})
    if page.url.endswith("/broken"):
        raise ValueError("no price")
    yield {"url": page.url, "kind": "page"}


@spider.on_error("http_error")
def refused(failed: shoal.FailedRequest) -> Iterator[Any]:
    yield record(failed)
    yield shoal.Request(url=f"{failed.url}/mirror")


@spider.on_error("gone")
def gone(failed: shoal.FailedRequest) -> Iterator[Any]:
    if failed.url.endswith("/raises"):
        raise ValueError("a hook of mine")
    while failed.url.endswith("/hangs"):
        time.sleep(60)
    yield record(failed)


@spider.on_error
def other(failed: shoal.FailedRequest) -> Iterator[Any]:
    yield record(failed)


def record(failed: shoal.FailedRequest) -> dict[str, Any]:
    return {
        "url": failed.url,
        "kind": failed.failure_class,
        "reason": failed.reason,
        "status": failed.status,
        "attempts": failed.attempts,
        "found_on": failed.data.get("from"),
    }
