"""What was submitted can be read back, by workers of any version."""

import msgspec

from shoal.model.settings import Settings
from shoal.redis_client import RedisClient, key_names
from shoal.spider.source import PlainSpider, SpiderFile
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.redis.crawls import Crawls

BOOKS = CrawlRecord(
    name="books",
    source=SpiderFile("books.py"),
    text=b"spider = ...",
    settings=msgspec.to_builtins(Settings()),
    outputs=("/data/out.jsonl",),
    version="abc",
)
PLAIN = CrawlRecord(name="a.test", source=PlainSpider("a.test", ("https://a.test/",)), settings={})


async def test_a_crawl_is_read_back_as_it_was_submitted(store: RedisClient) -> None:
    crawls = Crawls(store)

    assert await crawls.submit(BOOKS)
    assert await crawls.submit(PLAIN)
    found = await crawls.get("books")
    assert found is not None
    assert found.revision == BOOKS.revision
    assert [one.revision for one in await crawls.all()] == [PLAIN.revision, BOOKS.revision]
    assert msgspec.convert(BOOKS.settings, Settings) == Settings()


async def test_submitting_the_same_again_changes_nothing(store: RedisClient) -> None:
    crawls = Crawls(store)
    await crawls.submit(BOOKS)

    assert not await crawls.submit(msgspec.structs.replace(BOOKS, submitted_at=5.0))
    assert await crawls.submit(msgspec.structs.replace(BOOKS, text=b"changed"))
    assert len(await crawls.all()) == 1


async def test_every_submission_changes_the_news_number(store: RedisClient) -> None:
    crawls = Crawls(store)
    numbers = [await crawls.news()]
    for record in (BOOKS, BOOKS, PLAIN):
        await crawls.submit(record)
        numbers.append(await crawls.news())

    assert len(set(numbers)) == 4


async def test_a_record_can_be_deleted(store: RedisClient) -> None:
    crawls = Crawls(store)
    await crawls.submit(BOOKS)
    await crawls.delete("books")

    assert await crawls.get("books") is None


async def test_fields_of_a_newer_shoal_are_ignored(store: RedisClient) -> None:
    newer = {**msgspec.msgpack.decode(msgspec.msgpack.encode(BOOKS)), "colour": "red"}
    await store.do(
        store.fleet_tag,
        "HSET",
        key_names.crawl_records(store.fleet_tag),
        "books",
        msgspec.msgpack.encode(newer),
    )
    found = await Crawls(store).get("books")

    assert found is not None
    assert found.outputs == BOOKS.outputs
