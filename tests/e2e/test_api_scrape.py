"""One page on request: the formats, and what is refused."""

from pathlib import Path

import pytest
from tests.integration.server.running import running_server

from shoal.model.settings import CrawlSettings, Settings


async def test_a_page_is_scraped_in_every_format(shop: str, tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "store"), crawl=CrawlSettings(allow_private=True, rate=0))
    async with running_server(tmp_path, settings=settings) as server:
        for form, part in (("markdown", "["), ("html", "<html"), ("text", "The Harbour Shop Nets")):
            reply = await server.send("POST", "/api/v1/scrape", body={"url": shop, "format": form})
            assert reply.status == 200, reply.body
            page = reply.json()
            assert (page["status"], page["url"]) == (200, shop)
            assert part.lower() in page["content"].lower(), form
        fields = {"url": shop, "format": "json", "fields": {"name": "title"}}
        found = (await server.send("POST", "/api/v1/scrape", body=fields)).json()["content"]
        assert found["name"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://localhost/", "file:///etc/passwd", "http://169.254.169.254/"])  # fmt: skip
async def test_an_address_that_the_guard_refuses_is_not_scraped(url: str, tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        reply = await server.send("POST", "/api/v1/scrape", body={"url": url})
        assert reply.status == 422
        assert reply.json()["code"] == "not_possible"
