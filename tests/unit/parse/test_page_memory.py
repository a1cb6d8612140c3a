from collections.abc import Callable

from shoal.model.limits import MIB
from shoal.parse import batch
from shoal.parse.page_memory import PageMemory, estimated_bytes, is_large


class Pool:
    """What a pool does with its pages: it takes for one as soon as it may."""

    def __init__(self, memory: PageMemory, name: str, woken: list[str]) -> None:
        self.memory = memory
        self.wake: Callable[[], None] = lambda: woken.append(name)

    def take(self, size: int) -> bool:
        if not self.memory.has_room(size, self.wake):
            return False
        self.memory.take(size, self.wake)
        return True


def pools(limit: int) -> tuple[PageMemory, list[str], Pool, Pool, Pool]:
    memory, woken = PageMemory(limit), list[str]()
    first, second, third = (Pool(memory, name, woken) for name in ("first", "second", "third"))
    return memory, woken, first, second, third


def test_large_pages_wait_while_others_use_the_memory_and_the_first_in_the_queue_is_woken() -> None:
    memory, woken, first, second, third = pools(100)

    assert first.take(60)
    assert not second.take(60)
    assert not third.take(30), "it asked later"
    assert not second.take(60)
    memory.give_back(60)
    assert woken == ["second"]
    assert not third.take(30)
    assert second.take(60)
    assert woken == ["second", "third"], "there may be room for it, too"
    assert third.take(30)
    memory.give_back(60)
    memory.give_back(30)
    assert woken == ["second", "third"]
    assert memory.used == 0


def test_a_pool_whose_pages_follow_each_other_keeps_no_other_from_its_page() -> None:
    for size in (40, 160):  # less than the limit, and more
        memory, woken, busy, other, _ = pools(128)
        assert busy.take(100)
        assert not other.take(size)
        memory.give_back(100)
        assert not busy.take(100), "in the callback that gives back, before the other one runs"
        assert woken == ["second"]
        assert other.take(size)


def test_a_pool_that_leaves_the_queue_lets_the_next_one_pass() -> None:
    memory, woken, first, second, third = pools(100)

    assert first.take(60)
    assert not second.take(90)
    assert not third.take(40)
    memory.leave(second.wake)
    assert woken == ["third"]
    assert third.take(40)
    memory.leave(second.wake)
    assert woken == ["third"]


def test_one_page_may_always_be_parsed() -> None:
    _, _, first, second, _ = pools(100)

    assert first.take(1_000)
    assert not second.take(1)


def test_a_page_is_large_if_it_is_more_than_a_message_and_tags_cost_more_than_text() -> None:
    assert not is_large(bytes(batch.MAX_BYTES))
    assert is_large(bytes(batch.MAX_BYTES + 1))
    assert estimated_bytes(b"<b>" * MIB) > 10 * estimated_bytes(b"bbb" * MIB)
