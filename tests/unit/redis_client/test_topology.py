"""Slots and shards of tags."""

import pytest

from shoal.redis_client import RedisClient, Script
from shoal.redis_client.dsn import parse
from shoal.redis_client.topology import slot_of


# From CLUSTER KEYSLOT of a real server.
@pytest.mark.parametrize(("tag", "slot"), [("{shoal:00}", 5658), ("{shoal:07}", 9981), ("{foo}", 12182)])
def test_slots_are_those_of_the_server(tag: str, slot: int) -> None:
    assert slot_of(tag) == slot


def test_a_host_always_belongs_to_the_same_shard() -> None:
    store = RedisClient(parse("redis://h?namespace=ns"))
    store.shards = 16

    assert store.tag_of("shop.example") == store.tag(store.shard_of("shop.example"))
    assert store.tag(7) == "{ns:07}"
    assert len({store.shard_of(f"host-{number}.example") for number in range(1000)}) == 16


def test_a_script_is_identified_by_the_hash_of_its_text() -> None:
    assert Script("one", "return 1").sha == "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
