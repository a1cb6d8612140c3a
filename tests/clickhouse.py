"""The documented import into ClickHouse, run on its engine: `make clickhouse-test`.

The engine is a package of 800 MB and not part of the development requirements: the make target installs it
into `build/`, and this module is run by hand and not by pytest.
"""

import importlib
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shoal.archive.fetch_log import FetchLogWriter
from shoal.archive.fetch_log.columns import DEFAULTS
from shoal.archive.segments import SegmentFolder

PAGE = Path(__file__).parents[1] / "docs" / "observability.md"
ROWS = 5_000
NOON = 1_794_916_800_000_000


def documented() -> list[str]:
    """Return the statements of the block for ClickHouse."""
    text = PAGE.read_text()
    [block] = re.findall(
        r"^```sql\n(.*?)^```$", text[text.index("**ClickHouse.**") :], re.MULTILINE | re.DOTALL
    )
    return [statement.strip() for statement in block.split(";") if statement.strip()]


def write_log(folder: Path) -> None:
    """Write a fetch log of `ROWS` attempts as Parquet."""
    writer = FetchLogWriter(SegmentFolder(folder / "attempts"), "shop", part_bytes=1 << 20)
    rows = []
    for number in range(ROWS):
        host = number % 3
        given = {
            "started_at": NOON + number * 1_000_000,
            "crawl": "shop",
            "fingerprint": number + 1,
            "url": f"https://h{host}.example/{number}-{'x' * (number % 50)}",
            "host": f"h{host}.example",
            "status": 200,
            "outcome": "done",
            "attempt": 1,
            "sent": 1,
            "total_ms": 100.0 * (host + 1) + 10.0,
            "queue_ms": 10.0,
        }
        rows.append(tuple({**DEFAULTS, **given}.values()))
    writer.write(rows)
    writer.finish()


def main() -> int:
    engine: Any = importlib.import_module("chdb.session")
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_log(folder)
        assert list((folder / "attempts").glob("*.parquet")), "no Parquet part was written"
        os.chdir(folder)
        session = engine.Session(str(folder / "clickhouse"))
        create, insert, ask = documented()
        session.query(create)
        session.query(insert)
        session.query(insert)  # the load can be repeated
        slowest = str(session.query(ask, "CSV")).splitlines()
        counted = str(session.query("SELECT count() FROM attempts FINAL", "CSV")).strip()
        traced = "SELECT leftPad(lower(hex(fingerprint)), 16, '0') FROM attempts ORDER BY fingerprint LIMIT 1"
        trace = str(session.query(traced, "CSV")).strip().strip('"')
        session.close()
    assert int(counted) == ROWS, counted
    assert [line.split(",")[0].strip('"') for line in slowest] == ["h2.example", "h1.example", "h0.example"]
    assert trace == f"{1:016x}", trace
    print(f"clickhouse: {counted} rows loaded twice, kept once; slowest: {slowest[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
