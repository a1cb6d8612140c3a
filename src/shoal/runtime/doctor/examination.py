"""An examination from beginning to end."""

from collections.abc import Sequence

from shoal.runtime.doctor.checks import Check
from shoal.runtime.doctor.facts import gather
from shoal.runtime.doctor.verdicts import judge
from shoal.runtime.submitted import FOLDER
from shoal.stores.address import is_redis


async def examine(store: str) -> list[Check]:
    """Gather the facts and judge them."""
    fleet: Sequence[Check] = ()
    folder = store
    if is_redis(store):
        from shoal.runtime.doctor.fleet import examine_fleet

        fleet, folder = await examine_fleet(store), FOLDER
    return list(judge(await gather(folder, fleet)))
