"""The benchmark of the frontier on Redis: what of it is a promise and no figure, cut short."""

from bench.fleet import full, line, memory


async def test_a_full_server_refuses_links_and_the_crawl_drains() -> None:
    drained = await full.drained(room=2 << 20)
    assert drained.accepted > 1000
    assert drained.refused > 0
    assert (drained.left, drained.problems) == (0, 0)


async def test_spilling_leaves_the_order_alone() -> None:
    kept = await memory.spilled(20_000, "in a folder")
    assert kept.in_order
    assert kept.spilled > 10_000


async def test_no_host_is_asked_too_early_by_a_queue_that_one_host_leads() -> None:
    naive, ours = await line.pair(seconds=2.5, front=2_000, others=3)
    assert ours.too_early == 0
    assert len(naive.starts) == 1
    assert len(ours.starts) > 10
