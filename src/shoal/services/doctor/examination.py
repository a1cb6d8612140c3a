"""An examination from beginning to end."""

from collections.abc import Sequence

from shoal.services.doctor.checks import Check
from shoal.services.doctor.facts import gather
from shoal.services.doctor.verdicts import judge
from shoal.stores.address import is_redis
from shoal.stores.redis.submitted import FOLDER


async def examine(store: str) -> list[Check]:
    """Gather the facts and judge them."""
    fleet: Sequence[Check] = ()
    folder = store
    if is_redis(store):
        from shoal.services.doctor.fleet import examine_fleet

        fleet, folder = await examine_fleet(store), FOLDER
    return list(judge(await gather(folder, fleet)))
