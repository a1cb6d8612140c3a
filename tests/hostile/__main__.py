"""Runs every hostile case against the real command and writes the table of `docs/reference/hostile-inputs.md`.

Cases are data (`network.py`, `http.py`, ...). A few crawls run them all (`crawling.py`), and the same questions are
asked after each (`oracle.py`). The test suite runs a cut.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.hostile import table
from tests.hostile.crawling import run
from tests.hostile.groups import GROUPS
from tests.hostile.oracle import complaints, summary
from tests.hostile.private import contacted


def main() -> int:
    held: dict[str, bool] = {}
    found: list[str] = []
    for name, group in GROUPS.items():
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            crawled = asyncio.run(run(group.cases, Path(folder), group.terms))
            bad = list(complaints(crawled, group.cases))
        found += bad
        held |= {case.id: not any(line.startswith(f"{case.id}: ") for line in bad) for case in group.cases}
        print(
            f"{name}: {len(group.cases)} cases in {time.monotonic() - began:.0f} s; {summary(crawled)}",
            flush=True,
        )
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        found += contacted(Path(folder))
    print("\n".join(found) or f"all {len(held)} cases ended as they must")
    table.write(table.rendered(held))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
