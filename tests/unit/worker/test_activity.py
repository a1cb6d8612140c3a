"""What a worker reports that it is doing."""

from dataclasses import replace

import pytest

from shoal.stores.contract.heartbeat import OutputActivity
from shoal.worker.activity import CrawlWork, describe_activity

FETCHES = CrawlWork(in_progress=0, rate=0.0, fetches=True)
PARSES = replace(FETCHES, fetches=False)
BUSY = replace(FETCHES, in_progress=3)


def output(what: str, why: str = "") -> OutputActivity:
    return OutputActivity("shop", "/data/items.jsonl", what, why)


@pytest.mark.parametrize(
    ("crawls", "outputs", "expected"),
    [
        ([], [], "idle"),
        ([BUSY], [], "working"),
        ([replace(FETCHES, rate=0.4)], [], "working"),  # nothing in flight now, but a moment ago
        ([replace(PARSES, in_progress=1)], [], "working"),
        ([PARSES], [], "waiting for pages to parse"),
        ([FETCHES], [], "waiting for the hosts' pace"),
        ([replace(FETCHES, waiting=0, delayed=2)], [], "waiting for retries that are due later"),
        ([replace(FETCHES, waiting=0)], [], "waiting for requests in progress at other workers"),
        ([replace(FETCHES, only_other_pools=True)], [], "waiting for workers that serve other pools"),
        (
            [replace(FETCHES, later_stages_full=True)],
            [],
            "waiting for the stages after fetching, which are behind",
        ),
        ([replace(FETCHES, paused=True)], [], "waiting for a crawl that is paused"),
        ([replace(FETCHES, paused=True), FETCHES], [], "waiting for the hosts' pace"),
        ([], [output("writing")], "writing"),
        ([FETCHES], [output("writing")], "writing"),
        ([], [output("standby")], "idle"),
        ([], [output("waiting")], "waiting for items to write"),
        (
            [],
            [output("waiting"), output("failing", "disk full")],
            "waiting for an output that it cannot write",
        ),
    ],
)
def test_a_word_and_what_it_waits_for(
    crawls: list[CrawlWork], outputs: list[OutputActivity], expected: str
) -> None:
    assert " ".join(describe_activity(crawls, outputs, draining=False)).rstrip() == expected


def test_a_draining_worker_reports_only_that() -> None:
    assert describe_activity([BUSY], [output("writing")], draining=True) == ("draining", "")
