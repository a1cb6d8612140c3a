"""Pages delivered from worker to worker by NATS."""

from pathlib import Path

from tests.e2e.command import DONE, HASTY, PAGES, records
from tests.fleet_crawl import Fleet
from tests.servers.nats import nats_server
from tests.servers.redis import valkey


async def test_a_fleet_whose_bus_is_nats_parses_every_page_once(shop: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with valkey(tmp_path / "valkey") as store, nats_server(tmp_path / "nats") as bus:
        with Fleet(f"{store.dsn}?bus={bus.address}", folder, settings=HASTY) as fleet:
            assert fleet.submit(shop, "--crawl", "shop", spider=None).code == 0
            parser = fleet.start("--roles", "parse", "--until-done")
            others = [fleet.start("--roles", roles, "--until-done") for roles in ("fetch", "parse,sink")]
            codes = [await fleet.ended(worker) for worker in [parser, *others]]

            assert codes == [0, 0, 0], fleet.logs()
            assert fleet.counts()["done"] == DONE
    assert len(records(folder / "items.jsonl")) == PAGES
