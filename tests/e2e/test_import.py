"""The import of the fetch log that the documentation shows, typed on a real PostgreSQL."""

import os
import re
import subprocess
from pathlib import Path

from tests.e2e.command import DONE, HASTY, QUICK, SHOAL, TIMEOUT, shoal, surroundings
from tests.servers.process import program
from tests.servers.shared import shared_database

PAGE = Path(__file__).parents[2] / "docs" / "observability.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_documented_import_into_postgresql_can_be_repeated(shop: str, tmp_path: Path) -> None:
    shoal("crawl", shop, *QUICK, "--crawl", "shop", "--quiet", cwd=tmp_path, env=HASTY)
    table, [load] = blocks("sql")[0], blocks("bash")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "shoal").write_text(f'#!/bin/sh\nexec {" ".join(SHOAL)} "$@"\n')
    (commands / "shoal").chmod(0o755)

    with shared_database() as database:

        def typed(text: str) -> str:
            path = f"{commands}:{os.environ['PATH']}"
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=tmp_path,
                env=surroundings({"DATABASE": database, "PATH": path}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
            assert ran.returncode == 0, ran.stderr
            return ran.stdout

        psql = program("psql", "postgresql-client")
        (tmp_path / "table.sql").write_text(table)
        typed(f'{psql} -v ON_ERROR_STOP=1 "$DATABASE" -f table.sql')
        typed(load)
        typed(load)
        counted = typed(
            f"""{psql} "$DATABASE" -Atc "SELECT count(*), count(DISTINCT url) FROM attempts WHERE outcome = 'done'" """
        )
        assert counted.strip() == f"{DONE}|{DONE}"
        failed = typed(
            f"""{psql} "$DATABASE" -Atc "SELECT failure, status FROM attempts WHERE outcome = 'retry'" """
        )
        assert failed.strip() == "target_error|503"
