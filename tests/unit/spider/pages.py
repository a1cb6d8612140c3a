"""Pages to hand to spiders in tests."""

from shoal.model.page import ParseTask
from shoal.model.request import Request
from shoal.spider.page import Page

HTML = "text/html; charset=utf-8"


def task(
    body: str | bytes = "",
    *,
    url: str = "https://books.example/catalogue/index.html",
    content_type: str = HTML,
    headers: tuple[tuple[str, str], ...] = (),
    request: Request | None = None,
    fingerprint: int = 0xABC,
    status: int = 200,
) -> ParseTask:
    return ParseTask(
        id=7,
        fingerprint=fingerprint,
        request=request or Request(url=url),
        url=url,
        status=status,
        headers=(("content-type", content_type), *headers),
        body=body.encode() if isinstance(body, str) else body,
        fetched_at=1_700_000_000.5,
    )


def page(body: str | bytes = "", **wishes: object) -> Page:
    return Page(task(body, **wishes))  # type: ignore[arg-type]
