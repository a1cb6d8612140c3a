"""Host names and how hosts are shown."""

import pytest
from msgspec import structs
from tests.unit.cli.commands.inspect.test_trace import HOST, NOW

from shoal.cli.commands.control.host import host_lines
from shoal.model.errors import Misconfigured
from shoal.model.url import host_name
from shoal.services.control.hosts import host_json


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Shop.Example", "shop.example"),
        ("127.0.0.1:8000", "127.0.0.1:8000"),
        ("https://shop.example/item?x", "shop.example"),
        ("https://shop.example:444/", "shop.example:444"),
    ],
)
def test_a_host_is_a_name_a_port_or_a_url(text: str, name: str) -> None:
    assert host_name(text) == name


@pytest.mark.parametrize("text", ["", "a b", "https://"])
def test_a_bad_host_name_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Misconfigured, match="such as shop"):
        host_name(text)


def test_a_host_shows_everything_that_limits_it() -> None:
    busy = structs.replace(HOST, inflight=2, crawl_delay=5.0, next_turn=NOW + 60, failures=3)
    assert host_lines(busy, NOW)[1:] == [
        "  2 of 4 requests at once, bursts of 1",
        "  robots.txt asks for 5.0 s between requests; at most crawl.max_crawl_delay counts",
        "  next request 2023-11-14 22:14:20Z, in 1m 00s",
        "  3 failed attempts since the crawl started",
    ]
    assert len(host_lines(HOST, NOW)) == 2
    assert host_json(HOST)["waiting"] == 7
