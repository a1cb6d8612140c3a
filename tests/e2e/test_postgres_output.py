"""Items written to PostgreSQL by the command line."""

from pathlib import Path
from urllib.parse import urlsplit

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


def test_start_urls_are_the_rows_of_a_query(shop: str, tmp_path: Path) -> None:
    with shared_database() as dsn:
        database = dsn.replace("postgres@", f"asked:{PASSWORD.replace(' ', '%20')}@")
        rows = ", ".join(f"('{shop}?{number}', {number})" for number in range(3))
        ask(dsn, f"CREATE TABLE wanted AS SELECT * FROM (VALUES {rows}) AS found (url, number)")
        ask(dsn, "GRANT SELECT ON wanted TO PUBLIC")
        quick = (*QUICK, "--depth", "0", "--crawl", "asked")
        query = ("--query", "SELECT url FROM wanted WHERE number > 0 ORDER BY number")
        ran = shoal("crawl", "--seeds", database, *query, *quick, "--out", "x.jsonl", cwd=tmp_path, env=HASTY)
        assert ran.code == 0, ran.err
        wrong = shoal("crawl", "--seeds", database, "--query", "DELETE FROM wanted", *quick, cwd=tmp_path)
        assert ask(dsn, "SELECT count(*) AS n FROM wanted")[0]["n"] == 3
    assert {urlsplit(record["url"]).query for record in records(tmp_path / "x.jsonl")} == {"1", "2"}
    assert wrong.code == 1
    assert "asked@127.0.0.1" in wrong.err
    assert PASSWORD not in wrong.err
