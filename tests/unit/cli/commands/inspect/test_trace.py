"""The history of a URL, as text and JSON."""

from dataclasses import replace

import pytest
from msgspec import structs

from shoal.archive.fetch_log import LoggedAttempt
from shoal.cli.commands.inspect.trace import host_line, trace_lines
from shoal.frontier.results import HostView, RequestHistory, Tried
from shoal.model.failure import FailureClass
from shoal.model.page import PageRecord, PageRef
from shoal.model.spider_versions import Reparse, SpiderVersion
from shoal.services.inspect.logged import completed, last_parse, tries_in
from shoal.services.inspect.trace import FoundOn, Trace, trace_json, tries_of

NOW = 1_700_000_000.0
PAGE = PageRecord(PageRef("seg", 10, 20), 200, NOW, 1, 12, elapsed=0.1, wire_bytes=12_300)
DONE = RequestHistory(
    "shop",
    1,
    "done",
    [Tried(NOW - 2, 0.04, 503, FailureClass.TARGET_ERROR, "503 busy")],
    page=PAGE,
    ended_at=NOW,
    status=200,
)
WAITING = replace(DONE, state="waiting", page=None, ended_at=None)
HOST = HostView(
    host="a.test",
    waiting=7,
    inflight=0,
    interval=0.5,
    burst=1,
    concurrency=4,
    next_turn=0.0,
    crawl_delay=0.0,
    rest_until=0.0,
    slow=1.0,
    paused=False,
    failures=0,
)
TRACE = Trace(
    DONE,
    "http://a.test/x",
    FoundOn(255, "http://a.test/", NOW),
    HOST,
    tries_of(DONE),
    SpiderVersion("0123456789ab", NOW - 60),
    [Reparse("ba9876543210", NOW + 60, "/new.jsonl"), Reparse("ba9876543210", NOW + 60, "-", limit=7)],
)


def test_a_finished_history_is_shown_in_order() -> None:
    assert list(trace_lines(TRACE, NOW)) == [
        "http://a.test/x   in crawl shop, trace 0000000000000001",
        "  found on  http://a.test/",
        "  accepted  2023-11-14 22:13:20Z",
        '  try 1     2023-11-14 22:13:17Z  target_error 503 after 40 ms; "503 busy"',
        "  try 2     2023-11-14 22:13:19Z  200 in 0.1 s",
        "  archived  seg at 10, 20 bytes for 12.3 kB of body",
        "  parsed    by version 0123456789ab, in use since 2023-11-14 22:12:20Z",
        "  yielded   1 item, 12 links",
        "  reparsed  2023-11-14 22:14:20Z  by version ba9876543210 into /new.jsonl",
        "  reparsed  2023-11-14 22:14:20Z  by version ba9876543210 into - (if among the first 7 pages)",
        "  now       done, 2023-11-14 22:13:20Z",
    ]
    found = trace_json(TRACE)
    assert found["found_on"] == {"url": "http://a.test/", "trace": "00000000000000ff"}
    assert found["state"] == "done"
    attempts = found["attempts"]
    assert isinstance(attempts, list)
    assert [
        {name: one[name] for name in ("started_at", "elapsed_s", "status", "class", "reason")}
        for one in attempts
    ] == [
        {
            "started_at": NOW - 2 - 0.04,
            "elapsed_s": 0.04,
            "status": 503,
            "class": "target_error",
            "reason": "503 busy",
        },
        {"started_at": NOW - 0.1, "elapsed_s": 0.1, "status": 200, "class": None, "reason": ""},
    ]
    assert found["parsed_by"] == {"version": "0123456789ab", "since": NOW - 60}


def test_the_last_attempt_is_listed_and_none_is_listed_twice() -> None:
    gone = replace(DONE, state="gone", page=None, status=404, elapsed=0.5)
    assert [(one.status, one.kind) for one in tries_of(gone)] == [(503, "target_error"), (404, "gone")]
    failed = [Tried(NOW, 0.1, 200, FailureClass.PARSE_ERROR, "no title")]
    assert [one.kind for one in tries_of(replace(DONE, state="dead", tried=failed))] == ["parse_error"]
    replayed = replace(DONE, tried=[replace(failed[0], at=NOW + 9)])
    assert [one.kind for one in tries_of(replayed)] == ["", "parse_error"]


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (WAITING, "waiting for its host"),
        (replace(WAITING, state="delayed", due=NOW + 60), "delayed: retried in 1m 00s, at 2023-11-14 22"),
        (
            replace(WAITING, state="leased", holder="box-7", leased_at=NOW),
            "leased by box-7, since 2023-11-14 22:13:20Z",
        ),
        (replace(WAITING, state="gone", status=404, ended_at=NOW), "gone 404, 2023-11-14 22:13:20Z"),
        (
            replace(WAITING, state="dead", rule="timeout", reason="no answer", ended_at=NOW),
            'dead (timeout: "no answer"), 2023-11-14 22:13:20Z',
        ),
    ],
)
def test_every_state_is_described(story: RequestHistory, expected: str) -> None:
    lines = list(trace_lines(replace(TRACE, story=story), NOW))
    [state] = [line for line in lines if line.startswith("  now ")]
    assert expected in state


def test_a_waiting_request_shows_its_host() -> None:
    assert list(trace_lines(replace(TRACE, story=WAITING), NOW))[-1] == (
        "  host      a.test: 7 requests waiting, one request every 0.5 s"
    )
    assert "paused" in host_line(structs.replace(HOST, paused=True), NOW)
    assert "resting until 2023-11-14 22:14:20Z" in host_line(structs.replace(HOST, rest_until=NOW + 60), NOW)
    assert "slowed down 2.0 times" in host_line(structs.replace(HOST, slow=2.0), NOW)
    assert "no rate limit" in host_line(structs.replace(HOST, interval=0.0), NOW)


def test_the_page_that_linked_to_it_is_shown_if_known() -> None:
    seed, forgotten = replace(TRACE, found_on=None), replace(TRACE, found_on=FoundOn(255, "", None))
    assert "  found on  none: a start URL" in list(trace_lines(seed, NOW))
    assert "  found on  00000000000000ff (URL no longer known)" in list(trace_lines(forgotten, NOW))
    assert trace_json(seed)["found_on"] is None


LOGGED = LoggedAttempt(
    started_at=int(NOW * 1_000_000),
    crawl="shop",
    fingerprint=1,
    found_on=255,
    url="http://a.test/x",
    status=503,
    outcome="retry",
    failure="target_error",
    reason="status 503",
    attempt=1,
    worker="w-1",
    sent=1,
    total_ms=55.0,
    queue_ms=10.0,
    first_byte_ms=40.0,
    wire_bytes=120,
)
FETCHED = structs.replace(
    LOGGED,
    started_at=LOGGED.started_at + 2_000_000,
    status=200,
    outcome="fetched",
    failure="",
    reason="",
    attempt=2,
    worker="w-2",
    segment="s",
    offset=3,
    length=4,
    links=1,
)
PARSED = structs.replace(
    FETCHED,
    started_at=FETCHED.started_at + 500_000,
    stage="parse",
    outcome="done",
    worker="p-1",
    version="77aa",
    items=2,
    links=9,
    attempt=0,
)
ENDED = RequestHistory("shop", 1, "done", ())  # all that a fleet's store has


def test_what_a_fleet_has_forgotten_is_completed_from_the_log() -> None:
    story = completed(ENDED, [LOGGED, FETCHED, PARSED])
    assert (story.state, story.found_on, story.ended_at, story.holder) == ("done", 255, NOW + 2.555, "p-1")
    assert story.page is not None
    assert (story.page.ref, story.page.items, story.page.links) == (PageRef("s", 3, 4), 2, 9)
    for outcome, rule in (("gone", ""), ("filtered", "robots")):
        ended = completed(ENDED, [structs.replace(LOGGED, outcome=outcome, failure=rule or "gone")])
        assert (ended.state, ended.rule, ended.page) == (outcome, rule, None)
    assert completed(ENDED, []) is ENDED
    assert completed(DONE, [LOGGED]) is DONE  # the store knows better
    assert completed(WAITING, [LOGGED]) is WAITING


def test_logged_attempts_show_who_made_them_and_what_took_their_time() -> None:
    rows = [LOGGED, FETCHED, PARSED]
    parse = last_parse(rows)
    story = completed(ENDED, rows)
    found = Trace(
        story,
        "http://a.test/x",
        None,
        None,
        tries_in(rows),
        SpiderVersion("77aa", 0.0),
        (),
        parse,
        ["items.jsonl"],
        3,
    )
    assert list(trace_lines(found, NOW))[2:] == [
        '  try 1     2023-11-14 22:13:20Z  target_error 503 after 55 ms; "status 503"',
        "            by w-1: queue 10 ms, first byte 40 ms; 120 B",
        "  try 2     2023-11-14 22:13:22Z  200 in 55 ms",
        "            by w-2: queue 10 ms, first byte 40 ms; 120 B",
        "  archived  s at 3, 4 bytes for 120 B of body",
        "  parsed    by version 77aa at p-1",
        "  yielded   2 items, 9 links",
        "  keys      0000000000000001-0, 0000000000000001-1",
        "  output    items.jsonl; 3 pages of the crawl not written yet",
        "  now       done, 2023-11-14 22:13:22Z",
    ]
    attempts = trace_json(found)["attempts"]
    assert isinstance(attempts, list)
    assert [(one["number"], one["worker"], one["outcome"]) for one in attempts] == [
        (1, "w-1", "retry"),
        (2, "w-2", "fetched"),
    ]
    assert attempts[0]["phases_s"]["first_byte"] == pytest.approx(0.04)


def test_an_attempt_that_left_no_row_is_not_concealed() -> None:
    [only] = tries_in([FETCHED])
    assert only.missing == 1
    assert any("1 attempt not logged" in line for line in trace_lines(replace(TRACE, tries=[only]), NOW))
    rested = [LOGGED, structs.replace(LOGGED, started_at=LOGGED.started_at + 1)]  # 429 charges no attempt
    assert [one.missing for one in tries_in(rested)] == [0, 0]
