from collections.abc import Sequence

import pytest

from shoal.model.levels.ladder import BROWSER, EXIT, IMPERSONATE, LADDER, PLAIN, Cause
from shoal.model.levels.learned import (
    MAX_DOUBLINGS,
    MAX_PATTERNS,
    OTHERS,
    PROBE_AFTER_S,
    PROBE_PAGES,
    PROBE_S,
    REST_S,
    HostLevels,
    LearnedLevel,
    LevelOutcome,
    begin_probe,
    inherited,
    observe,
    pattern_of_level,
    probe_level,
)

NOW = 1_800_000_000.0


def blocked(level: str = PLAIN, count: int = 1) -> LevelOutcome:
    return LevelOutcome(level, Cause.ANTI_BOT, "a block by Example", count)


def shell(level: str = PLAIN) -> LevelOutcome:
    return LevelOutcome(level, Cause.EMPTY_SHELL, "an empty page")


def fetched(level: str = PLAIN, count: int = 1) -> LevelOutcome:
    return LevelOutcome(level, count=count)


def after(
    seen: Sequence[LevelOutcome],
    learned: LearnedLevel | None = None,
    *,
    now: float = NOW,
    available: Sequence[str] = LADDER,
) -> LearnedLevel:
    learned = learned or LearnedLevel()
    for one in seen:
        learned = observe(learned, one, now, available)
    return learned


@pytest.mark.parametrize(
    ("seen", "available", "level"),
    [
        ([blocked()], LADDER, EXIT),
        ([blocked(), blocked(EXIT)], LADDER, IMPERSONATE),
        ([blocked(), blocked(EXIT), blocked(IMPERSONATE)], LADDER, BROWSER),
        ([blocked()], (PLAIN, IMPERSONATE), IMPERSONATE),
        ([blocked()], (PLAIN,), PLAIN),
        ([shell()], LADDER, BROWSER),
        ([shell()], (PLAIN, EXIT, IMPERSONATE), PLAIN),
        # One in many says nothing about the others; three in a row do.
        ([fetched(), blocked()], LADDER, PLAIN),
        ([fetched(), blocked(), blocked(), fetched(), blocked(), blocked()], LADDER, PLAIN),
        ([fetched(), shell(), shell(), shell()], LADDER, BROWSER),
        # What was sent before the level changed does not change it again.
        ([blocked(), blocked(), blocked()], LADDER, EXIT),
        # A page that was raised alone says nothing about its pattern.
        ([fetched(), fetched(BROWSER)], LADDER, PLAIN),
    ],
)
def test_a_level_is_raised_if_pages_fail_there(
    seen: list[LevelOutcome], available: tuple[str, ...], level: str
) -> None:
    assert after(seen, available=available).level == level


def test_a_raised_level_says_why_and_since_when() -> None:
    learned = after([shell()])
    assert (learned.cause, learned.why, learned.since) == (Cause.EMPTY_SHELL, "an empty page", NOW)


def test_a_level_is_probed_after_many_pages_or_after_a_time() -> None:
    learned = after([shell(), fetched(BROWSER, PROBE_PAGES - 1)])
    assert probe_level(learned, NOW + 1, LADDER) is None
    assert probe_level(learned, NOW + PROBE_AFTER_S, LADDER) == PLAIN
    learned = after([fetched(BROWSER)], learned)
    assert probe_level(learned, NOW + 1, LADDER) == PLAIN
    assert probe_level(LearnedLevel(), NOW, LADDER) is None


def test_one_page_at_a_time_probes() -> None:
    learned = begin_probe(after([shell(), fetched(BROWSER, PROBE_PAGES)]), NOW)
    assert probe_level(learned, NOW + 1, LADDER) is None
    assert probe_level(learned, NOW + PROBE_S, LADDER) == PLAIN  # the process that probed has ended


def test_two_good_probes_lower_a_level_and_bad_ones_double_the_wait() -> None:
    learned = after([blocked(), fetched(EXIT), blocked(EXIT, 3), fetched(IMPERSONATE, PROBE_PAGES)])
    assert learned.level == IMPERSONATE
    assert probe_level(learned, NOW, LADDER) == EXIT
    good, bad = LevelOutcome(EXIT, probe=True), LevelOutcome(EXIT, Cause.ANTI_BOT, probe=True)

    once = after([good], learned)
    assert (once.level, probe_level(once, NOW, LADDER)) == (IMPERSONATE, EXIT)
    assert after([good], once).level == EXIT
    assert after([bad, good], once).level == IMPERSONATE

    failed = after([bad], learned)
    assert probe_level(failed, NOW + PROBE_AFTER_S, LADDER) is None
    assert probe_level(failed, NOW + 2 * PROBE_AFTER_S, LADDER) == EXIT
    assert after([bad] * 20, learned).probes == MAX_DOUBLINGS


def test_a_pattern_that_no_level_helps_rests_and_is_raised_again_later() -> None:
    learned = after([shell(), *[shell(BROWSER)] * 5])
    assert (learned.level, learned.rest_until) == (PLAIN, NOW + REST_S)
    assert "shows nothing either" in learned.why
    assert after([shell()] * 9, learned, now=NOW + 1).level == PLAIN
    again = after([shell()], learned, now=NOW + REST_S)
    assert again.level == BROWSER
    rested = after([shell(BROWSER)] * 5, again, now=NOW + REST_S)
    assert rested.rest_until == NOW + REST_S + 2 * REST_S
    assert after([shell(), fetched(BROWSER)], learned, now=NOW + REST_S).rests == 0


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("https://a.test/", "/"),
        ("https://a.test/about", "/*"),
        ("https://a.test/?page=2", "/"),
        ("https://a.test/fish/red-herring", "/fish/*"),
        ("https://a.test/fish/17/view?x=1", "/fish/0/*"),
        ("https://a.test/fish/", "/fish/"),
        ("https://a.test/2024/05/", "/0/0/"),
    ],
)
def test_pages_of_one_folder_have_one_pattern(url: str, pattern: str) -> None:
    assert pattern_of_level(url) == pattern


def test_a_new_pattern_starts_as_all_others_of_its_host_are() -> None:
    up = after([shell()])
    assert inherited({"/a/*": up, "/b/*": up}).level == PLAIN
    assert inherited({"/a/*": up, "/b/*": up, "/c/*": up}).level == BROWSER
    assert inherited({"/a/*": up, "/b/*": up, "/c/*": up, "/": LearnedLevel(good=1)}).level == PLAIN
    host = HostLevels({"/a/*": up, "/b/*": up, "/c/*": up})
    assert (host.at("/d/*").level, host.at("/a/*")) == (BROWSER, up)


def test_a_host_has_a_bounded_number_of_patterns() -> None:
    host = HostLevels()
    for number in range(3 * MAX_PATTERNS):
        host = host.with_pattern(f"/{'x' * number}/*", after([shell()]), NOW)
    assert len(host.patterns) == MAX_PATTERNS + 1
    assert host.at("/never/seen/*") == host.patterns[OTHERS]
