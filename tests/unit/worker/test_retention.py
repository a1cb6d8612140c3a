"""A worker deletes what has expired: archived pages, and rows of the fetch log."""

from datetime import date
from pathlib import Path

from shoal.model.settings import Settings
from shoal.spider.source import PlainSpider
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.worker.retention import expire_archive


def test_pages_and_logged_attempts_expire_each_after_its_time(tmp_path: Path) -> None:
    archive = tmp_path / "archive" / "shop"
    (archive / "attempts").mkdir(parents=True)
    for day in ("20261001", "20261110", "20261116"):
        (archive / f"shop.w-{day}-00001.warc.gz").touch()
        (archive / "attempts" / f"shop.w-{day}-00001.parquet").touch()
    settings = {"archive": {"keep_days": 3}, "fetch_log": {"keep_days": 30}}
    record = CrawlRecord(name="shop", source=PlainSpider("shop", ()), settings=settings)

    deleted = expire_archive(record, tmp_path, date(2026, 11, 17))

    assert deleted == [
        "shop.w-20261001-00001.warc.gz",
        "shop.w-20261110-00001.warc.gz",
        "shop.w-20261001-00001.parquet",
    ]
    kept = sorted(path.name for path in archive.rglob("*.*") if path.is_file() and path.suffix != ".expired")
    assert [name for name in kept if name.startswith("shop")] == [
        "shop.w-20261110-00001.parquet",
        "shop.w-20261116-00001.parquet",
        "shop.w-20261116-00001.warc.gz",
    ]
    assert Settings().fetch_log.keep_days == 90
