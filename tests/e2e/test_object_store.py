"""An archive on an object store, from the command line."""

from pathlib import Path

from tests.e2e.command import HASTY, PAGES, QUICK, records, shoal
from tests.servers.s3 import BUCKET, SECRET, s3_server


def test_pages_on_an_object_store_can_be_proved_and_exported(shop: str, tmp_path: Path) -> None:
    with s3_server(tmp_path / "s3") as server:
        crawling = {**HASTY, **server.environment, "SHOAL_ARCHIVE_LOCATION": f"s3://{BUCKET}/archive"}
        ran = shoal("crawl", shop, *QUICK, "--out", "x.jsonl", "--crawl", "shop", cwd=tmp_path, env=crawling)
        assert ran.code == 0, ran.err
        assert f"s3://{BUCKET}/archive/shop" in ran.out + ran.err
        assert list((tmp_path / "shoal-data").rglob("*.warc.gz")) == []

        proved = shoal("verify", "--deep", cwd=tmp_path, env=server.environment)
        assert proved.code == 0, proved.out + proved.err
        exported = shoal("export", "--out", "pages.warc.gz", cwd=tmp_path, env=server.environment)
        assert exported.code == 0, exported.err
        assert (tmp_path / "pages.warc.gz").stat().st_size > 10_000
        assert len(records(tmp_path / "x.jsonl")) == PAGES

    assert SECRET not in "".join([ran.out, ran.err, proved.out, proved.err, exported.out, exported.err])
