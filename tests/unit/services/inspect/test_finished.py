"""Why a crawl sends nothing although requests wait."""

import pytest

from shoal.engine.runs.facts import CommandFacts
from shoal.frontier.results import Counts
from shoal.model.exits.spending import Spending
from shoal.services.inspect.finished import why_stopped

LIMITED = CommandFacts(max_pages=200)


@pytest.mark.parametrize(
    ("counts", "command", "share", "words"),
    [
        (Counts(done=200, waiting=9), LIMITED, 0.0, "it has the 200 pages of --max-pages, and 9 requests wait"),
        (Counts(done=200, waiting=9, leased=1), LIMITED, 0.0, ""),
        (Counts(done=200), LIMITED, 0.0, ""),
        (Counts(done=199, waiting=9), LIMITED, 0.0, ""),
        (Counts(done=5, delayed=1), CommandFacts(stops_at_budget=True), 1.0, "its budget for exits is spent, and 1 request waits"),
        (Counts(done=5, delayed=1), CommandFacts(), 1.0, ""),
        (Counts(done=5, waiting=1), None, 1.0, ""),
    ],
)  # fmt: skip
def test_a_crawl_that_has_reached_its_limit_says_so(
    counts: Counts, command: CommandFacts | None, share: float, words: str
) -> None:
    found = why_stopped(counts, command, Spending(share=share))
    assert found.partition(":")[0] == words
