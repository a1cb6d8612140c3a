"""Records of earlier generations are read once for all leases of a grant, one call for each host."""

from collections.abc import Sequence

from tests.unit.engine.leased import lease

from shoal.engine.generations.earlier_records import EarlierRecords


class Frontier:
    def __init__(self) -> None:
        self.asked: list[tuple[str, list[int]]] = []

    async def earlier_pages(
        self, crawl: str, fingerprints: Sequence[int], *, host: str = ""
    ) -> dict[int, bytes]:
        self.asked.append((host, list(fingerprints)))
        return {fp: b"%d" % fp for fp in fingerprints if fp % 2}


async def test_the_records_of_a_grant_are_read_together() -> None:
    frontier = Frontier()
    records = EarlierRecords(frontier, "c")
    leases = [lease(1), lease(2), lease(3, host="b.test")]
    await records.load(leases)
    assert sorted(frontier.asked) == [("a.test", [1, 2]), ("b.test", [3])]
    assert [await records.take(one) for one in leases] == [b"1", None, b"3"]
    assert len(frontier.asked) == 2


async def test_a_record_that_was_taken_is_read_again_for_the_next_lease() -> None:
    frontier = Frontier()
    records = EarlierRecords(frontier, "c")
    await records.load([lease(1)])
    assert await records.take(lease(1)) == b"1"
    assert await records.take(lease(1, token=2)) == b"1"
    assert frontier.asked == [("a.test", [1]), ("a.test", [1])]
