"""A plan shows what limits a crawl, when it ends and what it costs."""

import json
import math
from pathlib import Path

import pytest

from shoal.cli.main import run
from shoal.cli.views.forecast import plan_lines
from shoal.services.inspect.capacity import HostLoad, Load, forecast
from shoal.services.inspect.plan import Plan, Prices, plan_json

NO_PRICES = Prices(None, 0, None)
HOSTS = [HostLoad("a.test", 2900, 2.0), HostLoad("b.test", 100, 2.0)]


def planned(
    *hosts: HostLoad,
    concurrency: int = 64,
    inflow: float = 0.0,
    within: float | None = None,
    prices: Prices = NO_PRICES,
) -> Plan:
    load = Load(hosts, 0.5, concurrency, inflow)
    return Plan("a test", load, forecast(load), 10_000.0, within, prices)


def test_more_workers_do_not_help_if_the_hosts_are_the_limit() -> None:
    assert list(plan_lines(planned(*HOSTS))) == [
        "plan: a test",
        "  to fetch    3,000 pages on 2 hosts",
        "  a page      takes 0.5 s and 10.0 kB",
        "  hosts       allow 4 pages/s together",
        "  slots       64 at once can do 128 pages/s",
        "  bounded by  the hosts' pace: more workers do not help, --concurrency 2 is enough",
        "  done in     12m 30s; but a.test alone takes 24m 10s: 2,900 pages at 2 pages/s",
        "  traffic     30.0 MB",
    ]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (planned(*HOSTS, concurrency=1), "the slots: more --concurrency"),
        (planned(HostLoad("a.test", 5, 0.0)), "a pause: shoal host resume"),
        (planned(*HOSTS, inflow=4.0), "never: 4 new URLs per second, but only 4 pages/s fetched"),
        (planned(*HOSTS, within=86_400.0), "in time     yes"),
        (
            planned(*HOSTS, within=60.0),
            "no, more workers cannot help: 50 pages/s needed, hosts allow 4 pages/s",
        ),
        (
            planned(HostLoad("a.test", 1000, 100.0), concurrency=1, within=100.0),
            "only with 5 requests at once: 10 pages/s",
        ),
        (planned(*HOSTS, concurrency=20_000), "can do 40,000 pages/s"),
        (planned(HostLoad("a.test", 9, math.inf)), "allow any number of pages/s"),
        (planned(*HOSTS, prices=Prices(2.0, 10, 2.5)), "30.0 MB, 0.06 at 2 per GB"),
        (planned(*HOSTS, prices=Prices(2.0, 10, 2.5)), "25.00 for 10 at 2.5 a month"),
        (planned(), "0 pages on 0 hosts"),
    ],
)
def test_every_limit_and_price_is_shown(plan: Plan, expected: str) -> None:
    assert expected in "\n".join(plan_lines(plan))


def test_json_has_null_for_infinite_values() -> None:
    found = json.loads(json.dumps(plan_json(planned(*HOSTS, inflow=9.0))))
    assert (found["bounded_by"], found["drain_s"], found["pages_per_s"]) == ("hosts", None, 4.0)
    assert (found["longest_host"], found["longest_host_s"]) == ("a.test", 1450.0)


def test_a_plan_needs_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--pages", "1e6", "--hosts", "200", "--rate", "2", "--within", "7d", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pages"], found["hosts"], found["pages_per_s_by_hosts"]) == (1_000_000, 200, 400.0)


def test_without_numbers_and_without_a_store_there_is_nothing_to_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["plan"]) == 1
    assert (
        "there is no store at shoal-data; give --pages to plan from numbers alone" in capsys.readouterr().err
    )
