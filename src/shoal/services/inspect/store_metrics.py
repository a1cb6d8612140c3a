"""The figures of a store for Prometheus, without a worker."""

from shoal.services.inspect.status import read_status
from shoal.stores.open import open_store


async def store_metrics(dsn: str) -> bytes:
    from shoal.worker.metrics import store_exposition  # needs an extra

    async with open_store(dsn) as store:
        return store_exposition(await read_status(store))
