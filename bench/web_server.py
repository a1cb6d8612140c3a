"""nginx for the site of the benchmark, on a separate core; the test server of this repository without it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from tests.site.access_log import Hit
from tests.site.server import Answer

from bench.measure import started_on

ROOT = Path(__file__).parents[1]
CONFIG = """
daemon off; worker_processes 1; pid {run}/pid; error_log {run}/error.log; {user}
events {{ worker_connections 4096; }}
http {{
  types {{ text/html html; text/css css; text/plain txt; }}
  charset utf-8; sendfile on; tcp_nodelay on; keepalive_requests 100000000; keepalive_timeout 300s;
  log_format path $request_uri; access_log {run}/access.log path;
  client_body_temp_path {run}; proxy_temp_path {run}; fastcgi_temp_path {run};
  uwsgi_temp_path {run}; scgi_temp_path {run};
  server {{ listen 127.0.0.1:{port} backlog=4096; root {root}; }}
}}
"""


@dataclass(frozen=True, slots=True)
class WebServer:
    """A running server for a folder of files."""

    name: str
    url: str
    _take_paths: Callable[[], list[str]]

    def take_log(self) -> Counter[str]:
        """Count the requests for each page since the last call, robots.txt aside."""
        paths = Counter(self._take_paths())
        del paths["/robots.txt"]
        return paths


@contextmanager
def serving(folder: Path, *, core: int, port: int = 0) -> Iterator[WebServer]:
    """Serve `folder` on one core, and, with nginx, on a port; 0 is a free one."""
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    serve = _nginx(nginx, folder, core, port) if nginx else _own_server(folder, core)
    with serve as server:
        yield server


@contextmanager
def _nginx(program: str, folder: Path, core: int, port: int) -> Iterator[WebServer]:
    with tempfile.TemporaryDirectory(prefix="bench-nginx-") as run:
        port = port or _free_port()
        user = "user root;" if os.geteuid() == 0 else ""  # its workers must be able to read the cache folder
        config = Path(run, "nginx.conf")
        config.write_text(CONFIG.format(run=run, root=folder, port=port, user=user))
        log = Path(run, "access.log")

        def take_paths() -> list[str]:
            paths = log.read_text().split()
            os.truncate(log, 0)  # nginx appends, so it continues at the start
            return paths

        command = [program, "-p", run, "-e", f"{run}/error.log", "-c", str(config)]
        with started_on([core]):
            process = subprocess.Popen(command)
        try:
            _wait_for(port, process)
            yield WebServer("nginx", f"http://127.0.0.1:{port}/", take_paths)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _own_server(folder: Path, core: int) -> Iterator[WebServer]:
    print("!! NO NGINX: our own, slower server stands in, so the figures below are not comparable.")
    print("!! Install it (Debian: apt-get install nginx-light) and run again.", flush=True)
    command = [sys.executable, "-m", "tests.site.server", f"{__name__}:FolderSite", str(folder), "1"]
    pipe = subprocess.PIPE
    with tempfile.TemporaryDirectory(prefix="bench-site-") as run:
        with started_on([core]):
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT)
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout, dump = process.stdin, process.stdout, Path(run, "hits")
        authority = stdout.readline().decode().strip()
        taken = 0

        def take_paths() -> list[str]:
            nonlocal taken
            stdin.write(f"dump {dump}\n".encode())
            stdin.flush()
            stdout.readline()
            hits = msgspec.msgpack.decode(dump.read_bytes(), type=list[Hit])
            paths = [hit.path for hit in hits[taken:]]
            taken = len(hits)
            return paths

        yield WebServer("fallback", f"http://{authority}/", take_paths)
        stdin.close()  # which ends it
        process.wait()


class FolderSite:
    """Files of a folder, for our own server."""

    def __init__(self, folder: str, authorities: list[str]) -> None:
        self._folder = Path(folder)

    def answer(self, host: int, path: str, now: float) -> Answer:
        file = self._folder / (path.lstrip("/") or "index.html")
        return Answer(200, file.read_bytes()) if file.is_file() else Answer(404, b"")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"the web server did not start (exit {process.returncode})")
