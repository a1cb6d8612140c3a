"""A real PostgreSQL with a private folder, on a free port of this machine."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import asyncpg
from tests.servers.process import free_port, program

PASSWORD = "correct horse"
FIRST_STARTS = 5  # attempts, each on another port
_ACCOUNT = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root


class Postgres:
    """A server that can be killed and started again."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._choose_port()

    def _choose_port(self) -> None:
        self.port = free_port()
        self.dsn = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb",
            *("-D", str(self._folder / "data"), "-U", "postgres", "--no-sync", "--no-locale"),
            *("-E", "UTF8", "-A", "scram-sha-256", "--pwfile", str(secret)),
        )
        # The user `postgres` needs no password; `asked` does.
        rules = "host all asked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
        (self._folder / "data" / "pg_hba.conf").write_text(rules)

    def start_anywhere(self) -> None:
        """Start the server for the first time; on another port if another process has taken its port."""
        for _ in range(FIRST_STARTS - 1):
            try:
                return self.start()
            except subprocess.CalledProcessError:
                self._choose_port()
        try:
            self.start()
        except subprocess.CalledProcessError as error:
            raise AssertionError((self._folder / "log").read_text()) from error

    def start(self) -> None:
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=40"
            " -c fsync=off -c shared_buffers=16MB"
        )
        data, log = str(self._folder / "data"), str(self._folder / "log")
        self._run("pg_ctl", "-D", data, "-l", log, "-w", "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """Stop the server; `immediate` is a crash."""
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", how, "-w", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(
            command,
            user=_ACCOUNT,
            cwd=self._folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )


def ask(dsn: str, query: str, *arguments: object) -> list[asyncpg.Record]:
    """Run one query on a new connection; return its rows."""

    async def answer() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetch(query, *arguments)
        finally:
            await connection.close()

    with ThreadPoolExecutor(max_workers=1) as thread:  # the caller may be in an event loop
        return thread.submit(asyncio.run, answer()).result()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server that no other test uses."""
    programs = Path(program("initdb", "postgresql-15", folders="usr/lib/postgresql/*/bin")).parent
    folder = Path(mkdtemp(prefix="shoal-postgres-"))  # pytest's own folders are closed to other accounts
    if _ACCOUNT:
        shutil.chown(folder, _ACCOUNT)
    server = Postgres(programs, folder)
    try:
        server.create()
        server.start_anywhere()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder)
