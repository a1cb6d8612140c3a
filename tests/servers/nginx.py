"""A real nginx, on a free port, in a private folder: one that limits its rate, and one with HTTP/2 and TLS."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.corpora.packages import unpacked
from tests.servers.process import ServerProcess, free_port, until

BASE = """
daemon off; worker_processes 1; pid {run}/pid; error_log {run}/error.log; {user}
events {{ worker_connections 4096; }}
http {{
  default_type text/html;
  client_body_temp_path {run}; proxy_temp_path {run}; fastcgi_temp_path {run};
  uwsgi_temp_path {run}; scgi_temp_path {run};
{servers}
}}
"""
LIMITED = """
  log_format times '$msec $status $request_uri'; access_log {root}/access.log times;
  limit_req_zone $server_port zone=pages:1m rate={rate}r/s; limit_req_status {status};
  server {{
    listen 127.0.0.1:{port};
    location = /robots.txt {{ return 404; }}
    location / {{ limit_req zone=pages burst={burst} nodelay; root {root}; try_files /page.html =404; }}
  }}
"""
SECURE = """
  log_format times '$request_uri|$server_protocol|$http_user_agent|$host'; access_log {root}/access.log times;
  server {{
    listen 127.0.0.1:{port} ssl http2; listen 127.0.0.2:{port} ssl http2;
    ssl_certificate {certificate}; ssl_certificate_key {key}; gzip on; gzip_min_length 1; gzip_types text/html;
    location = /robots.txt {{ return 404; }}
    location / {{ root {root}; try_files /page.html =404; }}
  }}
"""


def put_nginx_into_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add nginx to PATH for `bench.web_server`; where it is not installed, Debian's package is unpacked."""
    if _installed() is None:
        monkeypatch.setenv("PATH", f"{unpacked('nginx', 'usr/sbin')}:{os.environ['PATH']}")


def _installed() -> str | None:
    return shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


class Answered(NamedTuple):
    at: float  # epoch seconds
    status: int
    path: str


class Nginx(ServerProcess):
    """Serves the same page under every path."""

    def __init__(self, folder: Path, servers: str, **values: object) -> None:
        self.port = free_port()
        folder.mkdir(parents=True)
        (folder / "page.html").write_text("<title>a page</title>")
        user = "user root;" if os.geteuid() == 0 else ""
        own = servers.format(root=folder, port=self.port, **values)
        config = folder / "nginx.conf"
        config.write_text(BASE.format(run=folder, user=user, servers=own))
        binary = _installed() or str(unpacked("nginx", "usr/sbin") / "nginx")
        arguments = ["-p", str(folder), "-e", str(folder / "error.log"), "-c", str(config)]
        super().__init__([binary, *arguments], folder)

    async def answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    def lines(self) -> list[str]:
        """Return the lines of the log, those of robots.txt aside."""
        lines = (self.folder / "access.log").read_text().splitlines()
        return [line for line in lines if "/robots.txt" not in line]


class LimitingNginx(Nginx):
    """Serves at most `rate` pages per second; else it answers `status`."""

    def __init__(self, folder: Path, *, rate: int, status: int, burst: int) -> None:
        super().__init__(folder, LIMITED, rate=rate, status=status, burst=burst)
        self.url = f"http://127.0.0.1:{self.port}"

    def log(self) -> list[Answered]:
        split = (line.split() for line in self.lines())
        return [Answered(float(at), int(status), path) for at, status, path in split]


@asynccontextmanager
async def limiting_nginx(folder: Path, *, rate: int, status: int, burst: int) -> AsyncIterator[LimitingNginx]:
    server = LimitingNginx(folder, rate=rate, status=status, burst=burst)
    async with _running(server):
        yield server


@asynccontextmanager
async def secure_nginx(folder: Path, *, certificate: str, key: str) -> AsyncIterator[Nginx]:
    """Start a server with TLS and HTTP/2 on 127.0.0.1 and 127.0.0.2."""
    server = Nginx(folder, SECURE, certificate=certificate, key=key)
    async with _running(server):
        yield server


@asynccontextmanager
async def _running(server: Nginx) -> AsyncIterator[None]:
    server.start()
    try:
        await until(Nginx.answers, server)
        yield
    finally:
        server.kill()
