"""Closing the files of a store to other users leaves the locks of open databases alone."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from shoal.stores.folder.permissions import secure_file

WRITE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("INSERT INTO t VALUES (2)")
database.commit()
database.close()
"""


def test_a_database_in_use_keeps_its_log_when_another_process_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE t (x)")
        database.execute("INSERT INTO t VALUES (1)")
        database.commit()
        for file in (path, tmp_path / "store.db-wal", tmp_path / "store.db-shm"):
            file.chmod(0o644)
            secure_file(file)
            assert file.stat().st_mode & 0o777 == 0o600
        subprocess.run([sys.executable, "-c", WRITE, str(path)], check=True, timeout=60)
        # The last process that closes a database deletes its log; the other one was not the last.
        assert (tmp_path / "store.db-wal").exists()
        assert database.execute("SELECT count(*) FROM t").fetchone() == (2,)
