"""Is a crawl finished, while other processes change it?"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pytest

from shoal.frontier import Counts
from shoal.frontier.finished import is_finished


@dataclass
class Replies:
    """A reader that returns one count after the other."""

    counts_in_turn: list[Counts]

    async def counts(self, crawl: str) -> Counts:
        return self.counts_in_turn.pop(0)


# One after the other: a page is leased; its link has been added; it is settled; the link is, too.
LEASED = Counts(accepted=1, leased=1)
LINKED = Counts(accepted=2, leased=1, waiting=1)
SETTLED = Counts(accepted=2, done=1, waiting=1)
ENDED = Counts(accepted=2, done=2)
# The link's shard was read before it came, the page's shard after it was settled.
TORN = Counts(accepted=1, done=1)


@pytest.mark.parametrize(
    ("counts", "finished"),
    [
        ([LEASED, LINKED], False),
        ([TORN, SETTLED], False),
        ([TORN, ENDED], False),  # it has ended by now: the next call returns True
        ([ENDED, ENDED], True),
        ([Counts(), Counts()], True),
        ([ENDED, msgspec.structs.replace(ENDED, accepted=3, waiting=1)], False),  # a seed was added
    ],
)
async def test_a_crawl_is_finished_when_nothing_was_open_at_one_instant(
    counts: Sequence[Counts], finished: bool
) -> None:
    assert await is_finished(Replies(list(counts)), "c") is finished
