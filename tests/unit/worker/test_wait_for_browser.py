"""How long pages wait for a browser where no worker has one."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from shoal.worker.crawl_session import CrawlSession


def answering(value: Any) -> Any:
    async def answer(name: str) -> Any:
        return value

    return answer


@pytest.mark.parametrize(("paused", "in_vain"), [(False, True), (True, False)])
async def test_a_paused_crawl_does_not_wait_in_vain(paused: bool, in_vain: bool) -> None:
    told: list[bool] = []
    reader = SimpleNamespace(
        counts=answering(SimpleNamespace(parsing=0)),
        paused=answering(paused),
        waiting_by_pool=answering({"browser": 3}),
    )
    session = SimpleNamespace(
        _frontier=SimpleNamespace(reader=reader),
        record=SimpleNamespace(name="books"),
        _context=SimpleNamespace(fleet=SimpleNamespace(unwritten_pages=answering(0))),
        _warn_of_unserved=lambda unserved: None,
        _bound_wait_for_browser=told.append,
    )
    await CrawlSession.measure(cast(Any, session), {"http"})
    assert told == [in_vain]
