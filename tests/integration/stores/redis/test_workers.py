"""Workers are listed while they send heartbeats."""

import math
from typing import Any

import msgspec
import pytest

from shoal.redis_client import RedisClient, key_names
from shoal.stores.contract.fleet import HEARTBEAT_TTL_S
from shoal.stores.contract.heartbeat import CrawlActivity, Heartbeat
from shoal.stores.redis.workers import Workers

ANNA = Heartbeat(
    worker="anna-1",
    host="anna",
    pid=1,
    roles=("fetch", "parse"),
    shoal="0.1",
    started_at=1.0,
    beaten_at=2.0,
    doing="working",
    crawls=(CrawlActivity("books", "abc", 3, 100, 5.5),),
)
BERT = msgspec.structs.replace(ANNA, worker="bert-2", host="bert")


async def test_workers_with_a_heartbeat_are_listed_with_their_activity(store: RedisClient) -> None:
    workers = Workers(store)
    await workers.beat(BERT)
    await workers.beat(ANNA)

    assert await workers.all() == [ANNA, BERT]


async def test_a_worker_without_a_heartbeat_is_removed(store: RedisClient) -> None:
    workers = Workers(store)
    await workers.beat(ANNA)
    key = f"{store.fleet_tag}:worker:anna-1"
    left = await store.do(store.fleet_tag, "PTTL", key)
    await store.do(store.fleet_tag, "PEXPIRE", key, 0)

    assert 0 < left <= HEARTBEAT_TTL_S * 1000
    assert await workers.all() == []
    assert await store.do(store.fleet_tag, "SCARD", key_names.workers(store.fleet_tag)) == 0


async def test_a_worker_that_leaves_is_removed_at_once(store: RedisClient) -> None:
    workers = Workers(store)
    await workers.beat(ANNA)
    await workers.beat(BERT)
    await workers.leave("anna-1")

    assert await workers.all() == [BERT]


@pytest.mark.parametrize(
    "absurd",
    [
        {"beaten_at": math.nan},
        {"started_at": math.inf},
        {"pid": -1},
        {"concurrency": 2**60},
        {"crawls": (CrawlActivity("books", "abc", 3, 100, math.inf),)},
        {"crawls": (CrawlActivity("books", "abc", -3, 100, 5.5),)},
    ],
)
async def test_a_heartbeat_that_no_worker_can_have_sent_is_left_out(
    store: RedisClient, absurd: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    workers = Workers(store)
    await workers.beat(ANNA)
    await workers.beat(msgspec.structs.replace(BERT, **absurd))

    assert await workers.all() == [ANNA]
    assert "heartbeat.unreadable" in caplog.messages
    await workers.beat(BERT)
    assert await workers.all() == [ANNA, BERT]
