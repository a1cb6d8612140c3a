"""The chore that deletes archived pages of a fleet's crawls after `archive.keep_days`, and logged attempts
after `fetch_log.keep_days`.

Every worker does it for the archives that it can reach: the object store of a crawl, or the folder on its own
machine. Deleting twice does no harm.
"""

import asyncio
import logging
from datetime import UTC, date, datetime
from pathlib import Path

from shoal.archive.fetch_log import open_parts
from shoal.archive.registry import open_segments
from shoal.archive.retention import expire
from shoal.model.errors import ShoalError
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.fleet import SubmittedCrawls
from shoal.stores.contract.record_reader import settings_of
from shoal.worker.rules import WorkerRules

log = logging.getLogger(__name__)

EVERY_S = 3600.0


async def delete_expired_pages(crawls: SubmittedCrawls, rules: WorkerRules, folder: Path) -> None:
    """Delete expired pages now and every hour, until cancelled; only of crawls that this worker may serve."""
    while True:
        for record in (await crawls.read(key=rules.record_key)).records:
            if rules.refusal(settings_of(record)):
                continue
            try:
                deleted = await asyncio.to_thread(expire_archive, record, folder, datetime.now(UTC).date())
            except (ShoalError, OSError) as error:  # an archive that cannot be reached is tried again
                log.warning("archive.unavailable", extra={"crawl": record.name, "why": str(error)})
                continue
            if deleted:
                log.info("archive.expired", extra={"crawl": record.name, "segments": len(deleted)})
        await asyncio.sleep(EVERY_S)


def expire_archive(record: CrawlRecord, folder: Path, today: date) -> list[str]:
    """Delete the expired segments of a crawl, and parts of its fetch log; return their names.

    `folder`: where this worker's files go.
    """
    settings = settings_of(record)
    archive, local = settings.archive, folder / "archive"
    if not archive.location and not local.exists():  # this worker has archived nothing
        return []
    segments = open_segments(archive.location or str(local), record.name)
    parts = open_parts(segments)
    try:
        deleted = expire(segments, keep_days=archive.keep_days, today=today) if archive.keep_days else []
        if settings.fetch_log.keep_days:
            deleted += expire(parts, keep_days=settings.fetch_log.keep_days, today=today)
        return deleted
    finally:
        segments.close()
        parts.close()
