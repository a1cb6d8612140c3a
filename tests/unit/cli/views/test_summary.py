"""What a crawl prints when it starts and when it ends."""

import json
from dataclasses import replace

import pytest
from tests.unit.cli.snapshots import BUSY, snapshot, summary

from shoal.cli.commands.inspect.status import status_lines
from shoal.cli.commands.inspect.verify import verify_lines
from shoal.cli.process.exit_codes import ExitCode
from shoal.cli.views.dead_letters import letter_lines
from shoal.cli.views.summary import failure_reason, opening_lines, summary_lines
from shoal.model.failure import FailureClass
from shoal.model.request import Request
from shoal.services.control.dead_letters import DeadLetter, dead_letter_json
from shoal.services.crawl import Ending, Opening, summary_json
from shoal.services.inspect.status import CrawlStatus, StoreStatus
from shoal.services.inspect.verify import CrawlReport, VerifyReport, verify_json

NO_PAGE = snapshot(pages=0, counts={"done": 0, "dead": 1})


def test_the_summary_shows_what_was_done_where_it_is_and_what_to_run_next() -> None:
    text = "\n".join(summary_lines(summary(dead_by_class={"timeout": 3}), resume="shoal crawl x"))

    for expected in (
        "Finished: 1,234 pages and 1,100 items in 1m 12s (17.1 pages/s, 48.2 MB)",
        "done 1,234",
        "errors     timeout 5, target_error 2",
        "skipped    scope 80, robots 8",
        "failed     timeout 3",
        "items      shoal-data/items.jsonl",
        "archive    shoal-data/archive",
        "Next: shoal dlq list --store shoal-data",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("ending", "headline", "following"),
    [
        (Ending.FINISHED, "Finished", "shoal verify --store shoal-data"),
        (Ending.INTERRUPTED, "Interrupted", "shoal crawl x"),
        (Ending.LIMITED, "Stopped at --max-pages", "--max-pages"),
    ],
)
def test_every_ending_names_the_next_step(ending: Ending, headline: str, following: str) -> None:
    first, *_, last = summary_lines(summary(ending), resume="shoal crawl x")
    assert first.startswith(headline)
    assert last.startswith("Next: ")
    assert following in last


def test_json_has_the_same_figures() -> None:
    found = json.loads(json.dumps(summary_json(summary(dead_by_class={"dns": 3}), code=ExitCode.FINISHED)))

    assert found["ending"] == "finished"
    assert found["exit_code"] == 0
    assert found["counts"] == dict(BUSY.counts)
    assert (found["pages"], found["items"], found["bytes"]) == (1234, 1100, 48_200_000)
    assert found["dead_by_class"] == {"dns": 3}
    assert (found["outputs"], found["archive"]) == (["shoal-data/items.jsonl"], "shoal-data/archive")


def opening(*, resumed: bool) -> Opening:
    return Opening("shop", resumed, BUSY.counts, ["a.jsonl", "b.csv"], "data/archive/shop", "data")


def test_the_opening_shows_whether_it_resumes_and_where_output_goes() -> None:
    assert list(opening_lines(opening(resumed=False))) == [
        "starting crawl shop",
        "items go to a.jsonl, b.csv",
        "pages go to data/archive/shop",
    ]
    parquet = replace(opening(resumed=False), outputs=["a.parquet", "b.parquet/"])
    assert "a.parquet is complete when the run ends; until then, items are in a.parquet.parts" in (
        told := list(opening_lines(parquet))
    )
    assert len(told) == 4
    assert next(opening_lines(opening(resumed=True))) == "resuming crawl shop: 1,337 ended, 3,022 left"


LETTER = DeadLetter(
    crawl="shop",
    fingerprint=1,
    host="a.test",
    request=Request(url="http://a.test/"),
    kind=FailureClass.CONNECT,
    reason="connection refused",
    status=0,
    attempts=4,
    crashes=0,
    first_at=0.0,
    died_at=1_700_000_000.0,
    holder="me",
    page=None,
)


def test_a_crawl_without_a_page_explains_why() -> None:
    reason = failure_reason(summary(snapshot=NO_PAGE), [LETTER])
    assert reason == "no page was fetched: http://a.test/: connect: connection refused"


def test_a_crawl_whose_pages_are_gone_or_filtered_says_so() -> None:
    nothing = snapshot(counts={"done": 0, "gone": 1, "filtered": 3, "dead": 0})
    assert failure_reason(summary(snapshot=nothing), []) == "no page was fetched: skipped 3, gone 1"


def test_too_many_dead_letters_are_counted_by_class() -> None:
    given_up = summary(dead_by_class={"dns": 1, "timeout": 2}, max_dead_exceeded=True)
    reason = failure_reason(given_up, [])
    assert reason == "3 requests given up, more than --max-dead allows: timeout 2, dns 1"


def test_a_successful_or_interrupted_crawl_has_no_failure_reason() -> None:
    assert failure_reason(summary(), []) == ""
    assert failure_reason(summary(Ending.INTERRUPTED, snapshot=NO_PAGE), [LETTER]) == ""


def test_dead_letters_are_shown_with_time_class_place_and_reason() -> None:
    assert list(letter_lines([LETTER])) == [
        "2023-11-14 22:13:20Z  connect  http://a.test/",
        '    shop: 4 attempts; "connection refused"',
    ]
    assert dead_letter_json(LETTER)["class"] == "connect"
    assert list(letter_lines([])) == ["no dead letters"]


def test_the_status_omits_empty_states() -> None:
    counts = {"waiting": 0, "done": 1234, "dead": 2}
    crawls = [
        CrawlStatus("shop", 1236, counts, {"dns": 2}, {}),
        CrawlStatus("b", 1, {**counts, "dead": 0}, {}, {}),
    ]
    assert list(status_lines(StoreStatus("data", "process 7 since noon", crawls), 0.0)) == [
        "data: 2 crawls, in use by process 7 since noon",
        "crawl  accepted   done  failed",
        "shop      1,236  1,234       2",
        "b             1  1,234       0",
        "failed in shop: dns 2",
    ]
    assert list(status_lines(StoreStatus("data", None, []), 0.0)) == ["data: 0 crawls, not in use"]
    paused = CrawlStatus("shop", 1, counts, {}, {}, paused=True)
    last = list(status_lines(StoreStatus("data", None, [paused]), 0.0))[-1]
    assert last == "shop is paused: shoal resume shop continues it"


def test_verify_lists_problems_or_states_that_there_are_none() -> None:
    good = CrawlReport("shop", 10, 8, 7, {"a.jsonl": 7, "a.parquet": None}, [])
    bad = CrawlReport("bad", 1, 1, 1, {}, ["the counter of done says 1, the data 2"])
    assert list(verify_lines(VerifyReport("data", False, [good]))) == [
        "shop: 10 requests accounted for, 8 pages in the archive, 7 items",
        "  a.jsonl: 7 items",
        "  a.parquet: exists, not counted",
        "nothing lost, nothing doubled",
    ]
    assert list(verify_lines(VerifyReport("data", False, [bad])))[1:] == [
        "problem: bad: the counter of done says 1, the data 2",
        "1 problem",
    ]
    assert verify_json(VerifyReport("data", True, [bad]))["ok"] is False
    for repaired, line in (([], "nothing to repair"), (["a lane"], "repaired: a lane")):
        assert next(verify_lines(VerifyReport("data", False, [good], repaired))) == line
