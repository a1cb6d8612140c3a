from shoal.model.limits import MIB
from shoal.parse import batch
from shoal.parse.page_memory import PageMemory, estimated_bytes, is_large


def test_large_pages_wait_while_others_use_the_memory_and_are_woken_once() -> None:
    memory, woken = PageMemory(100), list[str]()

    assert memory.take(60, lambda: woken.append("first"))
    wake = lambda: woken.append("second")  # noqa: E731
    assert not memory.take(60, wake)
    assert not memory.take(60, wake)
    assert memory.take(40, lambda: woken.append("third"))
    memory.give_back(60)
    assert woken == ["second"]
    memory.give_back(40)
    assert woken == ["second"]
    assert memory.used == 0


def test_one_page_may_always_be_parsed() -> None:
    memory = PageMemory(100)

    assert memory.take(1_000, lambda: None)
    assert not memory.take(1, lambda: None)


def test_a_page_is_large_if_it_is_more_than_a_message_and_tags_cost_more_than_text() -> None:
    assert not is_large(bytes(batch.MAX_BYTES))
    assert is_large(bytes(batch.MAX_BYTES + 1))
    assert estimated_bytes(b"<b>" * MIB) > 10 * estimated_bytes(b"bbb" * MIB)
