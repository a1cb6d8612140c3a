"""Real proxies on free ports of this machine: squid, tinyproxy and microsocks, each with a password and a log."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.process import ServerProcess, free_port, program, until

SQUID = """
http_port 127.0.0.1:{port}
{https}
pid_filename none
dns_nameservers 127.0.0.1
cache deny all
cache_mem 8 MB
workers 1
pinger_enable off
shutdown_lifetime 0 seconds
coredump_dir {folder}
cache_log {folder}/cache.log
visible_hostname proxy.test
logformat shoal %un %rm %ru %>Hs %<st %Sh
access_log stdio:{folder}/access.log shoal
buffered_logs off
auth_param basic program /usr/lib/squid/basic_ncsa_auth {folder}/users
auth_param basic children 1 startup=1 idle=1
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
"""

TINYPROXY = """
Port {port}
Listen 127.0.0.1
Timeout 60
LogFile "{folder}/access.log"
LogLevel Connect
MaxClients 400
Allow 127.0.0.1
BasicAuth {user} {password}
DisableViaHeader Yes
"""


@dataclass(frozen=True)
class Login:
    user: str = "shoal"
    password: str = field(default="secret", repr=False)


class ProxyServer(ServerProcess):
    """A proxy; `line` is what a user would write to use it."""

    scheme = "http"

    def __init__(self, command: list[str], folder: Path, port: int, login: Login) -> None:
        super().__init__(command, folder)
        self.port = port
        self.login = login

    @property
    def line(self) -> str:
        return f"{self.scheme}://{self.login.user}:{self.login.password}@127.0.0.1:{self.port}"

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}"

    def remove(self) -> None:
        """Delete what pytest does not."""

    def log(self) -> list[str]:
        """Return the lines of its log, one or more per request."""
        file = self.folder / "access.log"
        return file.read_text(errors="replace").splitlines() if file.exists() else []

    async def answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True


class Squid(ProxyServer):
    def __init__(self, folder: Path, login: Login, certificate: tuple[str, str] | None = None) -> None:
        binary = program("squid", "squid", folders="usr/sbin")
        port, self.https_port = free_port(), free_port() if certificate else 0
        # Squid started by root becomes another user, which cannot enter the folders of pytest.
        folder = Path(tempfile.mkdtemp(prefix="squid-"))
        folder.chmod(0o777)
        hashed = subprocess.run(
            ["openssl", "passwd", "-apr1", login.password], capture_output=True, text=True, check=True
        )
        (folder / "users").write_text(f"{login.user}:{hashed.stdout.strip()}\n")
        https = ""
        if certificate is not None:
            copies = [Path(shutil.copy(file, folder)) for file in certificate]
            for file in copies:
                file.chmod(0o644)
            https = f"https_port 127.0.0.1:{self.https_port} tls-cert={copies[0]} tls-key={copies[1]}"
        config = folder / "squid.conf"
        config.write_text(SQUID.format(port=port, https=https, folder=folder))
        super().__init__([binary, "-N", "-f", str(config)], folder, port, login)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def https_line(self) -> str:
        return f"https://{self.login.user}:{self.login.password}@127.0.0.1:{self.https_port}"

    def users(self) -> list[str]:
        return [line.split()[0] for line in self.log()]


class Tinyproxy(ProxyServer):
    def __init__(self, folder: Path, login: Login) -> None:
        binary, port = program("tinyproxy", "tinyproxy"), free_port()
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "tinyproxy.conf"
        config.write_text(
            TINYPROXY.format(port=port, folder=folder, user=login.user, password=login.password)
        )
        super().__init__([binary, "-d", "-c", str(config)], folder, port, login)


class Microsocks(ProxyServer):
    scheme = "socks5"

    def __init__(self, folder: Path, login: Login, *, address: str = "") -> None:
        """`address`: the one that its connections come from."""
        binary, port = program("microsocks", "microsocks"), free_port()
        command = [binary, "-i", "127.0.0.1", "-p", str(port), "-u", login.user, "-P", login.password]
        super().__init__([*command, *(("-b", address) if address else ())], folder, port, login)

    def log(self) -> list[str]:
        return [line for line in self.output().splitlines() if line.startswith("client")]


Make = Callable[[Path, Login], ProxyServer]


@asynccontextmanager
async def proxy_server(make: Make, folder: Path, login: Login | None = None) -> AsyncIterator[ProxyServer]:
    """Run a proxy for as long as the block does."""
    server = make(folder, login or Login())
    try:
        server.start()
        await until(ProxyServer.answers, server)
        yield server
    finally:
        server.kill()
        server.remove()
