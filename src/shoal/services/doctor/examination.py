"""An examination from beginning to end."""

from collections.abc import Sequence

from shoal.services.doctor.facts import gather
from shoal.services.doctor.verdicts import judge
from shoal.stores.address import is_redis
from shoal.stores.contract.checks import Check
from shoal.stores.contract.crawl_record import LOCAL_FOLDER


async def examine(store: str) -> list[Check]:
    """Gather the facts and judge them."""
    fleet: Sequence[Check] = ()
    folder = store
    if is_redis(store):
        from shoal.stores.redis.checks import examine_fleet

        fleet, folder = await examine_fleet(store), LOCAL_FOLDER
    return list(judge(await gather(folder, fleet)))
