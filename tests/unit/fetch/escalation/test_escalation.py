from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from shoal.fetch.escalation.browser_budget import BrowserBudget
from shoal.fetch.escalation.escalation import Escalation, LevelChoice
from shoal.fetch.escalation.learned_levels import LearnedLevels
from shoal.model.failure import FailureClass
from shoal.model.levels.ladder import AUTO, BROWSER, EXIT, IMPERSONATE, LADDER, PLAIN, Cause
from shoal.model.levels.learned import PROBE_PAGES
from shoal.model.outcome import Filtered, Lease
from shoal.model.request import Request

HOST = "a.test"
BLOCK, SHELL = Cause.ANTI_BOT, Cause.EMPTY_SHELL


def lease(path: str = "/fish/1", *, attempt: int = 1, rests: int = 0, **fields: Any) -> Lease:
    request = Request(f"https://{HOST}{path}", **fields)
    return Lease("c", 1, 1, HOST, request, attempt, 0, rests, 0.0, 0.0, 1)


async def escalation(
    *,
    available: Collection[str] = LADDER,
    level: str = AUTO,
    hosts: dict[str, str] | None = None,
    allowed: Collection[str] = LADDER,
    per_host: int = 0,
    learned: LearnedLevels | None = None,
) -> Escalation:
    made = Escalation(
        learned or LearnedLevels(),
        BrowserBudget("c", None, per_host=per_host),
        allowed=allowed,
        level=level,
        hosts=hosts,
        has_exits=EXIT in available,
        impersonates=IMPERSONATE in available,
        pools=lambda: ("http", "browser") if BROWSER in available else ("http",),
    )
    await made.sync()
    return made


def chosen(levels: Escalation, one: Lease) -> LevelChoice:
    choice = levels.choose(one)
    assert isinstance(choice, LevelChoice)
    return choice


def fail(levels: Escalation, one: Lease, cause: Cause = BLOCK) -> Request | Filtered | None:
    return levels.failed(one, chosen(levels, one), cause, "why")


async def test_a_blocked_request_climbs_level_by_level_without_a_setting() -> None:
    levels = await escalation()
    path, one = [], lease()
    while isinstance(found := fail(levels, one), Request):
        path.append((found.escalated, found.pool))
        one = msgspec.structs.replace(one, request=found, rests=one.rests + 1)
    assert path == [(EXIT, "http"), (IMPERSONATE, "http"), (BROWSER, "browser")]
    assert found is None  # the highest level failed: it is a failure like any other


async def test_an_empty_shell_goes_straight_to_the_browser_and_its_neighbours_start_there() -> None:
    levels = await escalation()
    found = fail(levels, lease(), SHELL)
    assert isinstance(found, Request)
    assert (found.pool, found.escalated, found.url) == (BROWSER, BROWSER, "https://a.test/fish/1")
    assert chosen(levels, lease("/fish/2")).level == BROWSER
    assert chosen(levels, lease("/birds/2")).level == PLAIN


async def test_without_a_browser_an_empty_shell_is_a_page() -> None:
    levels = await escalation(available=(PLAIN, EXIT, IMPERSONATE))
    assert fail(levels, lease(), SHELL) is None
    assert chosen(levels, lease()).level == PLAIN


@pytest.mark.parametrize(
    ("made", "fields", "level"),
    [
        ({"level": PLAIN}, {}, PLAIN),
        ({"level": IMPERSONATE}, {}, IMPERSONATE),
        ({"level": IMPERSONATE, "hosts": {HOST: PLAIN}}, {}, PLAIN),
        ({"level": PLAIN}, {"level": IMPERSONATE}, IMPERSONATE),
        ({"hosts": {"other.test": BROWSER}}, {}, PLAIN),
    ],
)
async def test_a_level_that_was_set_is_never_left(
    made: dict[str, Any], fields: dict[str, Any], level: str
) -> None:
    levels = await escalation(**made)
    choice = chosen(levels, lease(**fields))
    assert choice.level == level
    if made.get("hosts") != {"other.test": BROWSER}:
        assert levels.failed(lease(**fields), choice, BLOCK, "why") is None


async def test_a_forbidden_level_is_skipped() -> None:
    levels = await escalation(allowed=(PLAIN, BROWSER))
    found = fail(levels, lease())
    assert isinstance(found, Request)
    assert found.escalated == BROWSER
    plain = await escalation(allowed=(PLAIN,))
    assert fail(plain, lease()) is None


@pytest.mark.parametrize("fields", [{"method": "POST", "body": b"x"}, {"pool": "http-eu"}])
async def test_forms_and_user_made_pools_never_go_to_the_browser(fields: dict[str, Any]) -> None:
    levels = await escalation(available=(PLAIN, BROWSER))
    assert fail(levels, lease(**fields)) is None


async def test_what_a_browser_may_cost_is_limited() -> None:
    levels = await escalation(per_host=2)
    moved = fail(levels, lease(), SHELL)
    assert isinstance(moved, Request)
    rendered = lease(pool=moved.pool, escalated=moved.escalated)
    for _ in range(2):
        levels.fetched(rendered, chosen(levels, rendered))
    for one in (rendered, lease("/fish/2")):
        refused = levels.choose(one)
        assert isinstance(refused, Filtered)
        assert refused.rule is FailureClass.BUDGET
        assert "crawl.browser_pages_per_host" in refused.reason
    assert isinstance(levels.failed(lease("/x/1"), LevelChoice(PLAIN, "/x/*"), SHELL, "why"), Filtered)


async def test_a_probe_is_tried_below_and_goes_back_up_if_it_fails() -> None:
    levels = await escalation()
    fail(levels, lease(), SHELL)
    for _ in range(PROBE_PAGES):
        levels.fetched(lease(), LevelChoice(BROWSER, "/fish/*"))
    probe = chosen(levels, lease("/fish/9"))
    assert (probe.level, probe.probe) == (PLAIN, True)
    assert chosen(levels, lease("/fish/10")).level == BROWSER  # one at a time
    back = levels.failed(lease("/fish/9"), probe, SHELL, "why")
    assert isinstance(back, Request)
    assert back.pool == BROWSER
    assert not chosen(levels, lease("/fish/11")).probe


async def test_a_request_that_was_tried_before_does_not_probe() -> None:
    levels = await escalation()
    fail(levels, lease(), SHELL)
    for _ in range(PROBE_PAGES):
        levels.fetched(lease(), LevelChoice(BROWSER, "/fish/*"))
    assert not chosen(levels, lease("/fish/9", attempt=2)).probe
    assert not chosen(levels, lease("/fish/9", rests=1)).probe


async def test_a_worker_without_the_learned_level_uses_the_next_one() -> None:
    learned = LearnedLevels()
    levels = await escalation(available=(PLAIN, IMPERSONATE), learned=learned)
    fail(levels, lease())
    assert chosen(levels, lease("/fish/2")).level == IMPERSONATE
    other = await escalation(available=(PLAIN, BROWSER), learned=learned)
    assert chosen(other, lease("/fish/2")).level == BROWSER
    bare = await escalation(available=(PLAIN,), learned=learned)
    assert chosen(bare, lease("/fish/2")).level == PLAIN


@pytest.mark.parametrize("is_fetched", [True, False])
async def test_a_pattern_is_learned_from_its_first_page_although_its_neighbours_changed_meanwhile(
    is_fetched: bool,
) -> None:
    levels = await escalation(available=(PLAIN, IMPERSONATE, BROWSER))
    for part in ("a", "b", "c"):
        fail(levels, lease(f"/{part}/1"), BLOCK)
    first = lease("/new")
    choice = chosen(levels, first)
    assert choice.level == IMPERSONATE  # as all others of its host
    for number in range(2, 10):  # no level helps one of them: it rests at the first level
        one = lease(f"/a/{number}")
        while isinstance(found := fail(levels, one), Request):
            one = msgspec.structs.replace(one, request=found, rests=one.rests + 1)
    assert chosen(levels, lease("/a/99")).level == PLAIN
    assert chosen(levels, lease("/other/1")).level == PLAIN

    if is_fetched:
        levels.fetched(first, choice)
    else:
        levels.failed(first, choice, SHELL, "empty")

    assert chosen(levels, lease("/next")).level == (IMPERSONATE if is_fetched else BROWSER)
