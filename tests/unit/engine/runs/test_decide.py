"""What a command does to a crawl that exists: every combination of what has changed."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import msgspec
import pytest

from shoal.engine.runs.decide import Decision, Reopening, RunAction, decide
from shoal.engine.runs.facts import CommandFacts, CrawlFacts, RunFlags

START = ("http://a.test/",)
SPIDER = CommandFacts(
    spider="shop.py",
    version="v1",
    start=START,
    start_digest="1",
    hosts=("a.test",),
    depth=2,
    follow="/item/",
    max_pages=100,
    per_host=50,
    outputs=("/o.jsonl",),
)
PLAIN = msgspec.structs.replace(SPIDER, spider="", version="", fields=(("name", "h1"),), follow_typed=True)

BEGIN, RENEW, REFUSE, EXTEND, RETRY, RESUME, NOTHING = RunAction

OUTCOMES = {
    "finished": CrawlFacts(done=10, gone=1),
    "finished with dead letters": CrawlFacts(done=10, dead=3),
    "interrupted": CrawlFacts(done=10, waiting=5),
    "killed": CrawlFacts(done=10, waiting=5, in_progress=2),
    "dead start URL": CrawlFacts(done=10, dead=2, dead_start=1),
    "at its limit": CrawlFacts(done=100, waiting=5),
    "unwritten": CrawlFacts(done=10, unwritten=2),
    "killed before its outputs were finished": CrawlFacts(done=10, unfinished=True),
    "no page": CrawlFacts(dead=1, dead_start=1),
    "no page, 404": CrawlFacts(gone=1),
    "interrupted before the first page": CrawlFacts(waiting=1),
}
AS_BEFORE = {
    "finished": NOTHING,
    "finished with dead letters": NOTHING,
    "interrupted": RESUME,
    "killed": RESUME,
    "dead start URL": RETRY,
    "at its limit": NOTHING,
    "unwritten": RESUME,
    "killed before its outputs were finished": RESUME,
    "no page": RENEW,
    "no page, 404": RENEW,
    "interrupted before the first page": RESUME,
}
INTERRUPTED = {
    "interrupted",
    "killed",
    "unwritten",
    "killed before its outputs were finished",
    "interrupted before the first page",
}

SAME, OTHER, WIDER, MORE = "same", "other", "wider", "more"
CHANGES: dict[str, tuple[str, dict[str, object]]] = {
    "nothing": (SAME, {}),
    "the spider's code": (SAME, {"version": "v2"}),
    "an output added": (SAME, {"outputs": ("/o.jsonl", "/p.csv")}),
    "an output removed": (SAME, {"outputs": ()}),
    "a lower depth": (SAME, {"depth": 1}),
    "more depth": (WIDER, {"depth": 3}),
    "no limit of depth": (WIDER, {"depth": None}),
    "another expression": (OTHER, {"follow": "/list/", "follow_typed": True}),
    "one more alternative": (WIDER, {"follow": "/list/|/item/", "follow_typed": True}),
    "no expression": (WIDER, {"follow": "", "follow_typed": False}),
    "another expression in the spider": (WIDER, {"follow": "/list/", "follow_typed": False}),
    "any host": (WIDER, {"any_host": True}),
    "one more host": (WIDER, {"hosts": ("a.test", "b.test")}),
    "more per host": (WIDER, {"per_host": 60}),
    "any number per host": (WIDER, {"per_host": 0}),
    "without robots.txt": (WIDER, {"robots": False}),
    "one more start URL": (MORE, {"start": (*START, "http://a.test/2"), "start_digest": "2"}),
    "a list of start URLs": (MORE, {"listed": True}),
    "another spider of that name": (OTHER, {"spider": "other.py", "version": "v2"}),
    "the spider renamed": (SAME, {"spider": "renamed.py"}),
}

CASES = list(product(OUTCOMES, CHANGES))


def flagged(*, fresh: bool = False, again: bool = False, named: bool = False) -> RunFlags:
    return RunFlags(fresh=fresh, again=again, named=named)


def typed(base: CommandFacts, changed: Mapping[str, object]) -> CommandFacts:
    return msgspec.structs.replace(base, **changed)


def after(outcome: str, command: CommandFacts = SPIDER) -> CrawlFacts:
    facts = OUTCOMES[outcome]
    return CrawlFacts(
        **{name: getattr(facts, name) for name in CrawlFacts.__slots__ if name != "command"}, command=command
    )


def run(outcome: str, change: str, *, base: CommandFacts = SPIDER, **flags: bool) -> Decision:
    return decide("shop", after(outcome, base), typed(base, CHANGES[change][1]), flagged(**flags))


@pytest.mark.parametrize("flags", [{}, {"again": True}, {"fresh": True}, {"named": True}])
def test_a_crawl_that_does_not_exist_begins(flags: dict[str, bool]) -> None:
    assert decide("shop", None, SPIDER, flagged(**flags)).action is BEGIN


@pytest.mark.parametrize(("outcome", "change"), CASES)
def test_every_change_after_every_outcome(outcome: str, change: str) -> None:
    kind = CHANGES[change][0]
    decision = run(outcome, change)
    if AS_BEFORE[outcome] is RENEW:
        expected = RENEW  # nothing to continue, and nothing to lose
    elif kind == OTHER:
        expected = REFUSE
    elif kind in (WIDER, MORE):
        expected = EXTEND
    else:
        expected = AS_BEFORE[outcome]

    assert decision.action is expected, decision
    assert bool(decision.reopen) is (kind == WIDER and expected is EXTEND)
    assert decision.retry_start is (outcome == "dead start URL" and expected not in (REFUSE, RENEW))
    assert bool(decision.ways) is (expected in (REFUSE, NOTHING))
    assert "shop" in decision.reason


@pytest.mark.parametrize(("outcome", "change"), CASES)
def test_fresh_starts_again_whatever_has_changed(outcome: str, change: str) -> None:
    decision = run(outcome, change, fresh=True)
    assert (decision.action, decision.discards) == (RENEW, OUTCOMES[outcome].done)


@pytest.mark.parametrize(("outcome", "change"), CASES)
def test_again_resumes_what_was_interrupted_and_begins_a_new_generation_otherwise(
    outcome: str, change: str
) -> None:
    decision, without = run(outcome, change, again=True), run(outcome, change)
    if without.action is REFUSE:
        assert decision.action is REFUSE
    elif outcome in INTERRUPTED:
        assert decision == without
    else:
        assert decision.action is RENEW


@pytest.mark.parametrize(
    ("began", "action"), [(99.0, RENEW), (100.0, NOTHING), (101.0, NOTHING), (0.0, RENEW)]
)
def test_again_after_a_time_begins_one_generation(began: float, action: RunAction) -> None:
    stored = replace(after("finished", SPIDER), began=began)
    flags = replace(flagged(again=True), again_after=100.0)
    assert decide("shop", stored, SPIDER, flags).action is action


@pytest.mark.parametrize(
    ("change", "named", "action"),
    [
        ({}, False, NOTHING),
        ({"start": ("http://a.test/2",), "start_digest": "2"}, False, REFUSE),
        ({"start": ("http://a.test/2",), "start_digest": "2"}, True, EXTEND),  # --crawl names it on purpose
        ({"start": (*START, "http://a.test/2"), "start_digest": "2"}, False, EXTEND),
        ({"fields": (("price", ".price"),)}, False, REFUSE),
        ({"fields": (("price", ".price"),)}, True, REFUSE),
        ({"fields": ()}, False, REFUSE),
        ({"follow": "/list/"}, False, REFUSE),
        ({"follow": "/item/|/list/"}, False, EXTEND),
        ({"spider": "shop.py", "version": "v1"}, False, REFUSE),
    ],
)
def test_a_crawl_without_a_spider_refuses_what_would_mix_two_commands(
    change: dict[str, object], named: bool, action: RunAction
) -> None:
    decision = decide("a.test", after("finished", PLAIN), typed(PLAIN, change), RunFlags(named=named))
    assert decision.action is action
    if action is REFUSE:
        ways = "\n".join(decision.ways)
        assert "--crawl NAME" in ways
        assert "--fresh" in ways


@pytest.mark.parametrize(
    ("facts", "refused"),
    [
        (CrawlFacts(done=9, waiting=1, live=True, command=SPIDER), True),
        (CrawlFacts(done=9, in_progress=1, paused=True, live=True, command=SPIDER), True),
        (CrawlFacts(done=9, waiting=1, paused=True, live=True, command=SPIDER), False),
        (CrawlFacts(done=9, live=True, command=SPIDER), False),
        (CrawlFacts(done=9, waiting=1, command=SPIDER), False),
    ],
)
def test_wider_limits_need_a_crawl_that_stands_still(facts: CrawlFacts, refused: bool) -> None:
    decision = decide("shop", facts, typed(SPIDER, {"depth": 9}), RunFlags(store="redis://a.test"))
    assert decision.action is (REFUSE if refused else EXTEND)
    assert not refused or "shoal pause shop --store redis://a.test" in decision.ways[0]


def test_each_wider_limit_is_named() -> None:
    wider = {"depth": None, "follow": "", "any_host": True, "per_host": 0, "robots": False}
    decision = decide("shop", after("finished"), typed(SPIDER, wider), RunFlags())
    assert decision.reopen == frozenset(Reopening)


def test_addresses_that_were_refused_are_tried_again_once_they_are_allowed() -> None:
    facts = CrawlFacts(done=5, dead=2, dead_refused=2, command=SPIDER)
    allowed = typed(SPIDER, {"allow_private": True})
    decision = decide("shop", facts, allowed, RunFlags())
    assert (decision.action, decision.retry_refused) == (EXTEND, True)
    known = CrawlFacts(done=5, dead=2, dead_refused=2, command=allowed)
    assert decide("shop", known, allowed, RunFlags()).action is NOTHING


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": "v2"}, "changed since 10 pages: shoal reparse shop.py --crawl shop --commit --out FILE"),
        ({"outputs": ("/o.jsonl", "/p.csv")}, "/p.csv is new"),
    ],
)
@pytest.mark.parametrize("outcome", ["finished", "interrupted"])
def test_what_a_run_does_not_do_is_said_with_the_command_that_does_it(
    outcome: str, change: dict[str, object], told: str
) -> None:
    decision = decide("shop", after(outcome), typed(SPIDER, change), RunFlags())
    assert any(told in note for note in decision.notes)


def test_nothing_to_do_names_every_way_on() -> None:
    decision = run("finished with dead letters", "the spider's code")
    assert decision.reason == "Nothing to do: crawl shop is complete (10 pages, 3 given up)"
    for way in ("shoal dlq replay --crawl shop", "shoal reparse shop.py", "--again", "shoal export --crawl"):
        assert any(way in one for one in decision.ways), way
    limited = run("at its limit", "nothing")
    assert "has reached --max-pages 100" in limited.reason
    assert run("at its limit", "nothing").ways[0].startswith("a larger --max-pages")


def test_a_larger_limit_of_pages_resumes() -> None:
    decision = decide("shop", after("at its limit"), typed(SPIDER, {"max_pages": 200}), RunFlags())
    assert decision.action is RESUME


def test_names_are_quoted_where_they_are_to_be_typed() -> None:
    decision = decide("my shop", after("finished"), SPIDER, RunFlags())
    assert any("--crawl 'my shop'" in way for way in decision.ways)


def test_a_crawl_of_an_earlier_version_continues() -> None:
    decision = decide("shop", CrawlFacts(done=3), SPIDER, RunFlags())
    assert (decision.action, decision.reopen) == (EXTEND, frozenset())
