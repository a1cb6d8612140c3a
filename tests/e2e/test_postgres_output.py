"""Items written to PostgreSQL by the command line."""

from pathlib import Path

from tests.e2e.command import HASTY, PAGES, QUICK, records, shoal
from tests.servers.postgres import PASSWORD, ask
from tests.servers.shared import shared_database


def test_a_crawl_into_a_database_can_be_verified_and_shows_no_password(shop: str, tmp_path: Path) -> None:
    with shared_database() as dsn:
        secret = PASSWORD.replace(" ", "%20")
        output = f"{dsn.replace('postgres@', f'asked:{secret}@')}?table=shop"
        ran = shoal("crawl", shop, *QUICK, "--out", output, "--out", "x.jsonl", cwd=tmp_path, env=HASTY)
        assert ran.code == 0, ran.err
        urls = [row["url"] for row in ask(dsn, "SELECT item->>'url' AS url FROM shop")]
        assert sorted(urls) == sorted(record["url"] for record in records(tmp_path / "x.jsonl"))
        assert len(urls) == PAGES

        proved = shoal("verify", cwd=tmp_path, env={"PGPASSWORD": PASSWORD})
        assert proved.code == 0, proved.out + proved.err
        ask(dsn, "DELETE FROM shop WHERE _id = 1")
        refuted = shoal("verify", cwd=tmp_path, env={"PGPASSWORD": PASSWORD})
        assert refuted.code == 5

    said = "".join([ran.out, ran.err, proved.out, proved.err, refuted.out, refuted.err])
    assert "postgresql://asked@127.0.0.1" in said
    assert secret not in said
    assert PASSWORD not in said
    kept = b"".join(path.read_bytes() for path in (tmp_path / "shoal-data").rglob("*") if path.is_file())
    assert secret.encode() not in kept
