"""What a worker says that it is doing."""

from dataclasses import replace

import pytest

from shoal.stores.contract.heartbeat import OutputActivity
from shoal.worker.activity import CrawlWork, doing

FETCHES = CrawlWork(in_hand=0, rate=0.0, fetches=True)
PARSES = replace(FETCHES, fetches=False)
BUSY = replace(FETCHES, in_hand=3)


def output(what: str, why: str = "") -> OutputActivity:
    return OutputActivity("shop", "/data/items.jsonl", what, why)


@pytest.mark.parametrize(
    ("crawls", "outputs", "said"),
    [
        ([], [], "idle"),
        ([BUSY], [], "working"),
        ([replace(FETCHES, rate=0.4)], [], "working"),  # nothing is out right now, but lately there was
        ([replace(PARSES, in_hand=1)], [], "working"),
        ([PARSES], [], "waiting for pages to parse"),
        ([FETCHES], [], "waiting for the hosts' pace"),
        ([replace(FETCHES, waiting=0, delayed=2)], [], "waiting for retries that are due later"),
        ([replace(FETCHES, waiting=0)], [], "waiting for what others have in hand"),
        ([replace(FETCHES, crowded=True)], [], "waiting for the stages after fetching, which are behind"),
        ([replace(FETCHES, paused=True)], [], "waiting for a crawl that is paused"),
        ([replace(FETCHES, paused=True), FETCHES], [], "waiting for the hosts' pace"),
        ([], [output("writing")], "writing"),
        ([FETCHES], [output("writing")], "writing"),
        ([], [output("standing by")], "idle"),
        ([], [output("waiting")], "waiting for items to write"),
        (
            [],
            [output("waiting"), output("failing", "disk full")],
            "waiting for an output that it cannot write",
        ),
    ],
)
def test_a_word_and_what_it_waits_for(
    crawls: list[CrawlWork], outputs: list[OutputActivity], said: str
) -> None:
    assert " ".join(doing(crawls, outputs, draining=False)).rstrip() == said


def test_whoever_drains_says_so() -> None:
    assert doing([BUSY], [output("writing")], draining=True) == ("draining", "")
