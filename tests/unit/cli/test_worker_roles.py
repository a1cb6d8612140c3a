"""`shoal worker --roles` and `--pools`: the role `browser` is the role `fetch` for one pool."""

import pytest

from shoal.cli.commands.run.worker import only_browsers, parse_roles
from shoal.model.errors import Misconfigured


@pytest.mark.parametrize(
    ("roles", "pools", "chosen", "served"),
    [
        (None, None, {"fetch", "parse", "sink"}, ("http",)),
        (None, "http,browser", {"fetch", "parse", "sink"}, ("http", "browser")),
        ("browser", None, {"fetch"}, ("browser",)),
        ("browser,parse", None, {"fetch", "parse"}, ("browser",)),
        ("fetch, browser", None, {"fetch"}, ("http", "browser")),
        ("browser", "browser-eu", {"fetch"}, ("browser-eu", "browser")),
        ("parse", None, {"parse"}, ("http",)),
    ],
)
def test_the_roles_and_pools_of_a_worker(
    roles: str | None, pools: str | None, chosen: set[str], served: tuple[str, ...]
) -> None:
    assert parse_roles(roles, pools) == (frozenset(chosen), served)


@pytest.mark.parametrize(
    ("roles", "pools", "reason"),
    [("fly", None, r"unknown role 'fly'; known: .*browser"), (None, "http,", "name pools")],
)
def test_what_is_not_a_role_or_a_pool_is_refused(roles: str | None, pools: str | None, reason: str) -> None:
    with pytest.raises(Misconfigured, match=reason):
        parse_roles(roles, pools)


def test_only_a_worker_without_plain_requests_is_limited_to_its_browsers() -> None:
    assert only_browsers(("browser", "browser-eu"))
    assert not only_browsers(("http", "browser"))
