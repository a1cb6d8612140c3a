"""`shoal.Client` against a server: typed answers, errors that say what to change, cursors, repetition."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.integration.server.running import RunningServer, running_server

import shoal
from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.model.api.roles import Role
from shoal.model.settings import CrawlSettings, Settings

T = TypeVar("T")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    settings = Settings(store=str(tmp_path / "store"), crawl=CrawlSettings(allow_private=True, rate=0))
    async with running_server(tmp_path, settings=settings, outputs=str(tmp_path)) as running:
        yield running


async def call(server: RunningServer, work: Callable[[shoal.Client], T], role: Role = Role.ADMIN) -> T:
    """Use a client in a thread, as a program without an event loop does."""

    def use() -> T:
        with shoal.Client(f"http://127.0.0.1:{server.port}", server.tokens[role]) as client:
            return work(client)

    return await asyncio.to_thread(use)


async def test_a_program_submits_waits_and_reads(server: RunningServer, tmp_path: Path) -> None:
    with open_shop(Shop(categories=1), latency=0.001) as shop:

        def work(client: shoal.Client) -> None:
            submitted = client.submit(
                urls=[shop], name="books", rate=0, max_pages=15, fields={"title": "title"}
            )
            assert submitted.crawl == "books"
            done = client.wait("books", every=0.1, timeout=90)
            assert done.counts["done"] == 15
            assert [one.crawl for one in client.crawls()] == ["books"]
            items = list(client.items("books"))
            assert items[::-1] == list(client.items("books", newest=True))
            assert {one.url for one in client.urls("books", state="done")} >= {item["url"] for item in items}
            assert client.trace(shop)[0]["state"] == "done"
            assert (
                client.download("books", tmp_path / "books.csv", form="csv")
                .read_text()
                .startswith("url,title")
            )
            assert client.host(shop.split("/")[2]).waiting >= 0
            assert client.change_host(shop.split("/")[2], rate=2.0).interval == 0.5
            assert list(client.dead_letters(crawl="books")) == []
            assert client.replay(crawl="books") == 0
            assert client.scrape(shop, format="text").status == 200

        await call(server, work)


async def test_errors_say_what_to_change(server: RunningServer) -> None:
    with pytest.raises(shoal.Client.Error, match=r"no crawl named 'nothing'|there is no store") as missing:
        await call(server, lambda client: client.crawl("nothing"))
    assert missing.value.status in (404, 422)
    with pytest.raises(shoal.Client.Error, match="role operate") as small:
        await call(server, lambda client: client.pause("x"), Role.READ)
    assert small.value.code == "role_too_small"


async def test_the_token_is_in_no_repr() -> None:
    assert "secret" not in repr(shoal.Client("http://127.0.0.1:1", "secret"))
    with pytest.raises(ValueError, match="not the address"):
        shoal.Client("file:///etc/passwd", "x")
