"""Memory: bounded, and never wrong about what it does not know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.scope import Scope
from shoal.spider.html import seen_links as module
from shoal.spider.html.seen_links import SeenLinks


def test_added_links_are_seen_until_the_scope_changes() -> None:
    memory, scope = SeenLinks(), Scope()
    memory.use(scope)
    memory.add(["a", "b"])
    memory.use(scope)
    assert memory.unseen(["a", "c", "b"]) == ["c"]
    memory.use(Scope())
    assert memory.unseen(["a", "c", "b"]) == ["a", "c", "b"]


def test_links_in_use_stay_longer_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GENERATION_URLS", 10)
    memory = SeenLinks()
    memory.add(["navigation", "once"])
    for n in range(100):
        memory.add([f"page-{n}"])
        memory.unseen(["navigation"])
    assert memory.unseen(["navigation", "once"]) == ["once"]


@given(st.lists(st.lists(st.integers(0, 50).map(str), max_size=5), max_size=60))
def test_only_added_links_count_as_seen(groups: list[list[str]]) -> None:
    memory, noted = SeenLinks(), set[str]()
    for group in groups:
        assert set(memory.unseen(group)) >= set(group) - noted
        memory.add(group)
        noted.update(group)
    assert memory.unseen(sorted(noted)) == []
