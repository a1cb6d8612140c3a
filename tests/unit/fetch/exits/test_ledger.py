"""What traffic through exits costs, and what happens when a budget is spent."""

import pytest
from tests.unit.fetch.exits.test_exit_pool import Records

from shoal.fetch.exits.ledger import ExitLedger, crawl_key, delete_spending, read_spending
from shoal.model.errors import Unavailable
from shoal.model.exits.exit import ChosenExit, ExitWish, parse_exit
from shoal.model.exits.spending import MAX_HOSTS, Budget, Spending, Traffic, cheaper_kind

DEAR = ChosenExit(
    parse_exit("http://10.0.0.1:1 name=dear kind=residential price_gb=4.25"), kind="residential"
)
CHEAP = ChosenExit(parse_exit("http://10.0.0.2:1 name=cheap kind=datacenter price_gb=0.5"), kind="datacenter")


async def test_bytes_are_counted_by_exit_kind_and_host_and_priced() -> None:
    records = Records()
    one, two = (ExitLedger("shop", records) for _ in range(2))
    one.count(DEAR, "a.example", 200_000_000_000)
    one.count(CHEAP, "b.example", 1_000_000_000)
    two.count(DEAR, "a.example", 1_000)
    await one.sync(force=True)
    await two.sync(force=True)
    found = read_spending(records.stored[crawl_key("shop")])
    assert found.exits == {"dear": 200_000_001_000, "cheap": 1_000_000_000}
    assert found.kinds == {"residential": 200_000_001_000, "datacenter": 1_000_000_000}
    assert found.hosts == {"a.example": 200_000_001_000, "b.example": 1_000_000_000}
    assert found.cost == pytest.approx(850.5, abs=0.001)  # 200 GB at 4.25
    await delete_spending(records, "shop")
    assert records.stored == {}


async def test_only_the_hosts_with_most_bytes_keep_their_names() -> None:
    traffic = Traffic()
    for number in range(200):
        traffic.add("e", "isp", f"h{number}", number + 1, 0.0)
    found = Spending().plus(traffic).plus(traffic)
    assert len(found.hosts) == MAX_HOSTS
    assert sum(found.hosts.values()) + found.other_hosts == found.bytes
    assert found.hosts["h199"] == 400


@pytest.mark.parametrize("budget", [Budget(money=8.5), Budget(gb=2.0), Budget(money=8.5, gb=100.0)])
async def test_a_budget_warns_at_80_percent_and_then_stops_all_processes(
    budget: Budget, caplog: pytest.LogCaptureFixture
) -> None:
    records = Records()
    one, two = (ExitLedger("shop", records, budget=budget) for _ in range(2))
    for expected in ([], ["budget.nearly_spent"], ["budget.nearly_spent", "budget.spent"]):
        assert [record.message for record in caplog.records] == expected
        assert one.must_stop is ("budget.spent" in expected)
        one.count(DEAR, "a.example", 800_000_000)
        await one.sync(force=True)
        await one.sync(force=True)
        if len(expected) == 0:
            one.count(DEAR, "a.example", 800_000_000)
            await one.sync(force=True)
    assert not two.must_stop
    await two.sync(force=True)
    assert two.must_stop


async def test_a_spent_budget_can_lead_to_cheaper_exits_instead() -> None:
    ledger = ExitLedger("shop", None, budget=Budget(money=1.0), over_budget="datacenter")
    wish = ExitWish("residential", "us")
    assert ledger.wish(wish) == wish
    ledger.count(DEAR, "a.example", 1_000_000_000)
    await ledger.sync(force=True)
    assert not ledger.must_stop
    assert ledger.wish(wish) == ExitWish("datacenter", "us")


@pytest.mark.parametrize(
    ("gigabytes", "kind"), [(10.0, "residential"), (24.0, "residential"), (25.0, "isp"), (200.0, "isp")]
)
def test_addresses_are_cheaper_than_traffic_from_some_volume_on(gigabytes: float, kind: str) -> None:
    found, even = cheaper_kind(gigabytes, 50, price_gb=4.25, price_month=2.08)
    assert found == kind
    assert even == pytest.approx(104 / 4.25)


async def test_traffic_that_the_store_could_not_be_told_of_is_counted_later() -> None:
    records = Records()
    ledger = ExitLedger("shop", records)
    records.away = lambda: ledger.count(DEAR, "a.example", 10)
    for _ in range(2):
        ledger.count(DEAR, "a.example", 1_000)
        with pytest.raises(Unavailable):
            await ledger.sync(force=True)
    records.away = None
    await ledger.sync(force=True)
    assert read_spending(records.stored[crawl_key("shop")]).bytes == 2_020
