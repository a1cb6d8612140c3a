"""Pools and their fetchers: which one serves which pool, and what is refused."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from shoal.engine.fetchers import PoolFetchers, Pools, open_fetchers
from shoal.fetch import registry
from shoal.fetch.contract import Attempt
from shoal.fetch.cookies import CookieJar
from shoal.fetch.fetcher import HttpFetcher
from shoal.fetch.registry import check_pools, fetcher_factories, find_factory, usable_pools
from shoal.frontier import StoredRobots
from shoal.model.errors import Misconfigured
from shoal.model.outcome import Lease
from shoal.model.request import Link, Request
from shoal.model.settings import BrowserSettings, Settings


class NoRobots:
    async def get_robots(self, host: str) -> StoredRobots | None:
        return None

    async def set_robots(self, host: str, *, expires: float, status: int, body: bytes) -> None:
        pass


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Entry points by pool, as packages would install them."""
    targets: dict[str, str] = {}

    def entry_points() -> list[EntryPoint]:
        return [EntryPoint(pool, target, registry.GROUP) for pool, target in targets.items()]

    monkeypatch.setattr(registry, "fetcher_entry_points", entry_points)
    return targets


def linked(pool: str) -> Link:
    return Link.to(Request(url="http://a.test/", pool=pool))


@pytest.mark.parametrize(
    ("pool", "served_by"),
    [
        ("http", "http"),
        ("http-eu", "http"),
        ("browser", "browser"),
        ("browser-eu", "browser"),
        ("tor", "tor"),
        ("gopher", None),
    ],
)
def test_the_factory_of_a_pool(installed: dict[str, str], pool: str, served_by: str | None) -> None:
    installed["tor"] = "package:open_fetcher"
    factories = fetcher_factories()

    found = find_factory(factories, pool)

    assert found is (None if served_by is None else factories[served_by])


def test_a_package_cannot_replace_the_built_in_fetcher(installed: dict[str, str]) -> None:
    installed["http"] = "package:open_fetcher"
    with pytest.raises(Misconfigured, match="the pool http is built in"):
        fetcher_factories()


def test_a_worker_refuses_a_pool_and_names_the_remedy(installed: dict[str, str]) -> None:
    none = BrowserSettings(path="no-such-browser")
    check_pools(("http", "http-eu"), none)
    with pytest.raises(Misconfigured, match=r"'gopher'; known: http, browser\. Install a .* --pools http"):
        check_pools(("http", "gopher"), none)
    with pytest.raises(Misconfigured, match=r"no program 'no-such-browser'.*apt-get install"):
        check_pools(("http", "browser"), none)
    assert usable_pools(none) == ("http",)


@pytest.mark.parametrize(
    ("exclusive", "pools", "refused"),
    [
        (True, ["http"], ""),
        (True, ["http-eu", "http"], ""),
        (True, ["http", "gopher"], "gopher"),
        (True, ["http", "browser"], "browser"),
        (False, ["http", "gopher"], ""),  # another worker may serve it
    ],
)
def test_requests_of_a_pool_without_a_fetcher_are_refused(
    exclusive: bool, pools: list[str], refused: str
) -> None:
    served = Pools(exclusive=exclusive)

    assert (served.refused_link([linked(pool) for pool in pools]) or "").count(f"pool {refused!r}") == bool(
        refused
    )
    assert bool(served.refusal(pools)) is bool(refused)


def test_a_user_made_http_pool_is_leased_from_once_a_link_names_it() -> None:
    served = Pools(exclusive=True)
    served.refused_link([linked("http-eu")])
    assert served.names == ("http", "http-eu")

    fixed = Pools(["http"])
    fixed.refused_link([linked("http-eu")])
    assert fixed.names == ("http",)


class NamedFetcher:
    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []

    async def attempt(self, lease: Lease, *, etag: str = "", modified: str = "") -> Attempt:
        self.asked.append(lease.request.pool)
        return Attempt(lease)


async def test_each_request_goes_to_the_fetcher_of_its_pool() -> None:
    http, browser = NamedFetcher("http"), NamedFetcher("browser")
    fetchers: Mapping[str, Any] = {"http": http, "browser": browser}
    for pool in ("http", "browser", "http-eu", "browser-eu"):
        request = Request(url="http://a.test/", pool=pool)
        await PoolFetchers(fetchers).attempt(lease_of(request))

    assert (http.asked, browser.asked) == (["http", "http-eu"], ["browser", "browser-eu"])


def lease_of(request: Request) -> Lease:
    return Lease("c", 1, 1, "a.test", request, 1, 0, 0, 60.0, 0.0, 1)


async def test_a_crawl_with_one_pool_uses_its_fetcher_directly(installed: dict[str, str]) -> None:
    async with open_fetchers(
        Settings(), Pools(exclusive=True), robots_cache=NoRobots(), jar=CookieJar(), home=()
    ) as fetcher:
        assert isinstance(fetcher, HttpFetcher)


async def test_a_fetcher_that_does_not_load_takes_its_pool_out_of_an_embedded_crawl(
    installed: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    installed["browser"] = "no_such_package:open_fetcher"
    pools = Pools(fetcher_factories(), exclusive=True)
    async with open_fetchers(Settings(), pools, robots_cache=NoRobots(), jar=CookieJar(), home=()):
        pass

    assert pools.names == ("http",)
    assert caplog.messages == ["pool.unavailable"]


async def test_a_fetcher_that_does_not_load_ends_a_worker_that_was_started_for_its_pool(
    installed: dict[str, str],
) -> None:
    installed["browser"] = "no_such_package:open_fetcher"
    with pytest.raises(Misconfigured, match="the fetcher of the pool 'browser' does not load"):
        async with open_fetchers(
            Settings(), Pools(["browser"]), robots_cache=NoRobots(), jar=CookieJar(), home=()
        ):
            pass
