"""The seen-set of the frontier on Redis, on a real server."""

import random
from collections.abc import AsyncIterator, Iterable
from importlib import resources
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.servers.redis import valkey

from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.frontier import MAX_LINKS
from shoal.frontier.redis.seen import Approximate, Bloom, seen_hash
from shoal.redis_client import RedisClient, Script
from shoal.testing.contracts.frontier import UNLIMITED, link

FRAGMENT = (resources.files("shoal.frontier.redis") / "lua" / "fragments" / "seen.lua").read_text()
ADDING = """
local new = {}
for i = 2, #ARGV, 2 do
  if seen_add(seen_of(TAG, ARGV[1]), ARGV[i], tonumber(ARGV[i + 1])) then new[#new + 1] = ARGV[i] end
end
seen_save()
seen_grow()
return new
"""
KNOWN = """
local known = {}
for i = 2, #ARGV, 2 do
  if seen_has(seen_of(TAG, ARGV[1]), ARGV[i], tonumber(ARGV[i + 1])) then known[#known + 1] = ARGV[i] end
end
return known
"""
HEAD = """
local call, sub, format = redis.call, string.sub, string.format
local TAG = sub(KEYS[1], 1, -3)
"""
ADD = Script("add", HEAD + FRAGMENT + ADDING)
# Buckets so small that a handful of fingerprints makes them split.
ADD_SMALL = Script("add_small", ADD.source.replace("SEEN_MEAN = 200", "SEEN_MEAN = 2"))
# And so small that a bucket is often too large to be split.
ADD_SKEWED = Script("add_skewed", ADD_SMALL.source.replace("SEEN_MAX = 2000", "SEEN_MAX = 4"))
assert len({ADD_SKEWED.source, ADD_SMALL.source, ADD.source}) == 3
HAS = Script("has", HEAD + FRAGMENT + KNOWN)
DROP = Script("drop", HEAD + FRAGMENT + "return seen_drop(TAG, ARGV[1], tonumber(ARGV[2]))")

crawls = (f"c{number}" for number in count())
fingerprints = st.one_of(st.integers(0, 20), st.integers(0, 2**63 - 1), st.integers(2**63 - 20, 2**63 - 1))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[RedisClient]:
    async with valkey(tmp_path) as server, RedisClient.open(server.dsn) as opened:
        yield opened


async def ask(store: RedisClient, script: Script, crawl: str, fps: Iterable[int]) -> list[int]:
    pairs = [part for fp in fps for part in (fp, seen_hash(fp))]
    return [int(fp) for fp in await store.run(script, store.tag(0), [crawl, *pairs])]


def spread(numbers: Iterable[int]) -> list[int]:
    """Return fingerprints that are spread like those of links."""
    return [number * 0x9E3779B97F4A7C15 % 2**63 for number in numbers]


async def meta(store: RedisClient, crawl: str, field: str) -> int:
    return int(await store.do(store.tag(0), "HGET", f"{store.tag(0)}:sm:{crawl}", field))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    batches=st.lists(st.lists(fingerprints, max_size=60), max_size=6),
    add=st.sampled_from([ADD_SMALL, ADD_SKEWED]),
)
async def test_it_answers_like_a_set(store: RedisClient, batches: list[list[int]], add: Script) -> None:
    crawl, model = next(crawls), set[int]()
    for batch in batches:
        expected = [fp for number, fp in enumerate(batch) if fp not in model and fp not in batch[:number]]
        assert await ask(store, add, crawl, batch) == expected
        model.update(batch)
    probes = [*model, *range(30)]
    assert await ask(store, HAS, crawl, probes) == [fp for fp in probes if fp in model]
    if model:
        assert await meta(store, crawl, "size") == len(model)


async def test_growing_buckets_stay_intsets_below_ten_bytes_per_member(store: RedisClient) -> None:
    rng, tag = random.Random(7), store.tag(0)
    await ask(store, ADD, "another", [0])  # the script itself takes memory, once
    before = await used(store)
    for _ in range(250_000 // MAX_LINKS):
        fps = [rng.getrandbits(63) for _ in range(MAX_LINKS)]
        assert len(await ask(store, ADD, "c", fps)) == MAX_LINKS
    assert await ask(store, ADD, "c", fps) == []

    assert (await used(store) - before) / 250_000 <= 10
    buckets = [f"{tag}:s:c:{number}" for number in range(await meta(store, "c", "buckets"))]
    encodings = await store.pipeline(tag, [("OBJECT", "ENCODING", bucket) for bucket in buckets])
    assert set(encodings) == {b"intset"}
    assert sum(await store.pipeline(tag, [("SCARD", bucket) for bucket in buckets])) == 250_000


async def test_one_call_splits_a_bounded_number_of_buckets(store: RedisClient) -> None:
    await ask(store, ADD_SMALL, "c", spread(range(1000)))
    assert await meta(store, "c", "buckets") == 1 + 8
    await ask(store, ADD_SMALL, "c", spread(range(1000, 1100)))
    assert await meta(store, "c", "buckets") == 1 + 8 + 8
    assert await ask(store, HAS, "c", spread(range(1102))) == spread(range(1100))


async def test_an_aborted_split_loses_nothing(store: RedisClient) -> None:
    """Additions come before removals: after any command of a split, everything is still seen."""
    rng = random.Random(3)
    fps = [rng.getrandbits(63) for _ in range(100)]
    for last in range(1, 8):
        crawl = f"cut{last}"
        await ask(store, ADD_SMALL, crawl, fps[:90])
        source = ADD_SMALL.source.replace(
            "local call, sub, format = redis.call,", "local call, sub, format = counted,"
        )
        counted = f"local left = {last + 10}\nlocal function counted(...)\n  left = left - 1\n"
        counted += "  if left == 0 then error('cut off') end\n  return redis.call(...)\nend\n"
        with pytest.raises(Exception, match="cut off"):
            await ask(store, Script("cut", counted + source), crawl, fps[90:])
        assert await ask(store, ADD_SMALL, crawl, fps[:90]) == []


async def test_a_crawl_is_deleted_in_batches_and_others_stay(store: RedisClient) -> None:
    await ask(store, ADD, "kept", [1, 2, 3])
    before = await store.do(store.tag(0), "DBSIZE")
    for begin in range(0, 100, 25):
        await ask(store, ADD_SMALL, "c", spread(range(begin, begin + 25)))
    left = [await store.run(DROP, store.tag(0), ["c", 15]) for _ in range(3)]
    assert left == [33 - 15, 33 - 30, 0]
    assert await store.do(store.tag(0), "DBSIZE") == before
    assert await ask(store, HAS, "kept", [1, 2, 3, 4]) == [1, 2, 3]


async def test_a_filter_has_no_false_negatives_and_the_predicted_false_positives(
    store: RedisClient,
) -> None:
    tag, filter_ = store.tag(0), Bloom.for_links(20_000, 0.01)
    await store.do(tag, "HSET", f"{tag}:sm:c", "bits", filter_.bits, "hashes", filter_.hashes)
    rng = random.Random(5)
    fps = [rng.getrandbits(63) for _ in range(20_000)]
    for begin in range(0, 20_000, 1000):
        await ask(store, ADD, "c", fps[begin : begin + 1000])

    assert await ask(store, HAS, "c", fps[:2000]) == fps[:2000]
    strangers = [rng.getrandbits(63) for _ in range(20_000)]
    mistaken = sum(
        [len(await ask(store, HAS, "c", strangers[begin : begin + 1000])) for begin in range(0, 20_000, 1000)]
    )
    said = filter_.false_positives(await meta(store, "c", "size"))
    assert said == pytest.approx(0.01, rel=0.1)
    assert mistaken / 20_000 == pytest.approx(said, rel=0.5)
    assert await store.do(tag, "STRLEN", f"{tag}:sb:c") / 20_000 < 1.3


def test_an_empty_filter_has_no_false_positives_and_an_overfull_one_many() -> None:
    filter_ = Bloom.for_links(1000, 0.001)
    assert filter_.false_positives(0) == 0.0
    assert filter_.false_positives(10_000) > 0.9


async def test_counts_include_the_share_of_false_positives(store: RedisClient) -> None:
    frontier = RedisFrontier(store)
    await frontier.crawls.open("exact", pace=UNLIMITED)
    await frontier.crawls.open("small", pace=UNLIMITED, approximate=Approximate(links=400, rate=0.01))
    links = [link(str(number), host=f"{number % 50}.test") for number in range(2000)]
    assert (await frontier.add("exact", links)).new == 2000
    assert (await frontier.reader.counts("exact")).mistaken == 0.0
    assert (await frontier.reader.counts("small")).mistaken == 0.0

    pieces = [links[begin : begin + 50] for begin in range(0, 2000, 50)]
    new = sum([(await frontier.add("small", piece)).new for piece in pieces])
    counts = await frontier.reader.counts("small")  # five times as many as it was made for
    assert 0.1 < counts.mistaken < 1.0
    assert 100 < new < 1950  # the others are lost
    assert counts.accepted == new
    assert (await frontier.reader.audit("small")).problems == []
    assert (await frontier.add("small", links)).new == 0


async def used(store: RedisClient) -> int:
    text = (await store.do(store.tag(0), "INFO", "memory")).decode()
    return int(text.split("used_memory:")[1].split()[0])
