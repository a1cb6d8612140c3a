"""Blocks for hosts: the paces that they mean, and what goes before what. The options of spiders."""

from pathlib import Path

import pytest

from shoal.engine.crawl_options import host_paces, pace_of, with_spider_options
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.errors import Misconfigured
from shoal.model.request import Link, Request
from shoal.model.settings import CrawlSettings, HostSettings, Settings
from shoal.spider.source import SpiderDescription

Paces = dict[str, tuple[float, int, int]]


async def paces_under(path: Path, settings: Settings, *, by_hand: float | None = None) -> Paces:
    """Open a crawl under these settings, then perhaps give a.test a pace by hand."""
    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c", pace=pace_of(settings.crawl), hosts=host_paces(settings))
        await frontier.add("c", [Link.to(Request(url=f"http://{host}/")) for host in ("a.test", "b.test")])
        if by_hand is not None:
            await frontier.hosts.set("a.test", interval=by_hand)
        live = {
            view.host: (view.interval, view.burst, view.concurrency) for view in await frontier.hosts.all()
        }
    async with SqliteFrontier.peek(path) as reader:
        for host, pace in live.items():  # a store that is not running reports the same
            view = await reader.host(host)
            assert view is not None
            assert (view.interval, view.burst, view.concurrency) == pace
    return live


async def test_a_block_sets_the_pace_of_its_host_and_its_end_gives_the_crawls_own_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    crawl = CrawlSettings(rate=4.0, burst=2, per_host=3)
    block = {"a.test": HostSettings(rate=0.5, per_host=1), "b.test": HostSettings(headers={"X": "y"})}

    assert await paces_under(path, Settings(crawl=crawl, hosts=block)) == {
        "a.test": (2.0, 2, 1),
        "b.test": (0.25, 2, 3),
    }
    faster = CrawlSettings(rate=10.0)
    assert await paces_under(path, Settings(crawl=faster)) == {"a.test": (0.1, 1, 4), "b.test": (0.1, 1, 4)}


async def test_a_pace_given_by_hand_goes_before_a_block_until_it_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    settings = Settings(hosts={"a.test": HostSettings(rate=0.5, per_host=1)})

    assert (await paces_under(path, settings, by_hand=9.0))["a.test"] == (9.0, 1, 1)
    assert (await paces_under(path, settings))["a.test"] == (9.0, 1, 1)
    async with SqliteFrontier.open(path) as frontier:
        await frontier.hosts.clear("a.test")
    assert (await paces_under(path, settings))["a.test"] == (2.0, 1, 1)


def test_a_rate_of_nothing_is_no_limit() -> None:
    assert host_paces(Settings(hosts={"a.test": HostSettings(rate=0.0)}))["a.test"].interval == 0.0


def test_options_of_a_spider_apply_unless_the_user_has_set_them() -> None:
    spider = SpiderDescription(name="s", options={"rate": 5, "depth": 2, "follow": "/a/"})
    crawl = with_spider_options(Settings(), spider, frozenset({"depth"})).crawl
    assert (crawl.rate, crawl.depth, crawl.follow) == (5.0, None, "/a/")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"allow_private": True}, "allow_private is not an option of a spider"),
        ({"cookie_file": "/etc/passwd"}, "cookie_file is not an option of a spider"),
        ({"ca_file": "/etc/passwd"}, "ca_file is not an option of a spider"),
        ({"nameservers": "127.0.0.1"}, "nameservers is not an option of a spider"),
        ({"concurrency": 10**9}, "concurrency: must be a whole number from 1 to 10,000"),
        ({"rate": "fast"}, "rate: must be"),
        ({"headers": {"X": "a\r\nb"}}, "the value must be a string on one line"),
        ({"__class__": 1}, "unknown option"),
    ],
)
def test_what_a_spider_process_returns_is_checked_again(options: dict[str, object], complaint: str) -> None:
    """A description that did not come from `Spider`: user code has replaced it."""
    with pytest.raises(Misconfigured, match=complaint):
        with_spider_options(Settings(), SpiderDescription(name="s", options=options), frozenset())


@pytest.mark.parametrize(
    ("spider", "general", "typed", "rate"),
    [
        (0.5, 2.0, False, 0.5),  # the settings of a folder do not make a polite spider four times as fast
        (0.5, 0.0, False, 0.5),
        (2.0, 0.5, False, 0.5),
        (0.0, 0.5, False, 0.5),
        (0.5, 2.0, True, 2.0),  # --rate is for this very crawl
    ],
)
def test_the_slower_of_the_spiders_pace_and_the_settings_applies_unless_a_flag_says_otherwise(
    spider: float, general: float, typed: bool, rate: float, caplog: pytest.LogCaptureFixture
) -> None:
    described = SpiderDescription(name="shop", options={"rate": spider, "depth": 3})
    settings = Settings(crawl=CrawlSettings(rate=general, depth=1))
    with caplog.at_level("INFO"):
        applied = with_spider_options(
            settings,
            described,
            frozenset({"rate", "depth"}),
            typed=frozenset({"rate"}) if typed else frozenset(),
        )
    assert applied.crawl.rate == rate
    assert applied.crawl.depth == 1  # what is not a pace follows the user
    assert "spider.overridden" in caplog.text
