"""The DSN of a Redis store.

    redis://[user[:password]@]host[:port][/database]
    rediss://...                             the same, over TLS
    redis+unix:///path/of/the.sock[?db=n]
    redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/service
    redis+cluster://[user[:password]@]host[:port][,host[:port]...]

Options after `?`: `namespace` (prefix of all keys), `tls=1`, `ca_file` (a certificate authority to trust),
`cert_file` and `key_file` (client certificate, and its key if that is in another file), `password_file` (a
file with the password, as containers receive secrets), `patience_s` (how long a call retries an unavailable
store), `replicas` (how many have to confirm a replicated write), `sentinel_user` and `sentinel_password`,
`servers` (hosts and address ranges, comma-separated, that sentinels may name as the master), `bus` (what
carries pages to the workers that parse them, such as `nats://host:4222`; a fleet has one store and one bus,
so they share one DSN).

A DSN may hold a password, so it is never printed: the text of a `Dsn` has no secrets, and errors name the
part that is wrong, not its value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from shoal.model.errors import Misconfigured
from shoal.model.settings import REDIS_SCHEMES

OPTIONS = (
    "namespace",
    "db",
    "tls",
    "ca_file",
    "cert_file",
    "key_file",
    "password_file",
    "patience_s",
    "replicas",
    "sentinel_user",
    "sentinel_password",
    "servers",
    "bus",
)
PORT = 6379
SENTINEL_PORT = 26379


@dataclass(frozen=True, slots=True)
class Address:
    """One server: a host and a port, or the path of a socket."""

    host: str
    port: int = 0  # 0: `host` is a path

    def __str__(self) -> str:
        if not self.port:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Login:
    user: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""  # holds the password instead

    def secret(self) -> str:
        """Return the password; a file is read each time, since it may be replaced while a worker runs."""
        if not self.password_file:
            return self.password
        try:
            return Path(self.password_file).read_text().rstrip("\r\n")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
            # Without its name: by mistake it may be the password itself.
            raise Misconfigured(f"store: the password_file cannot be read: {why}") from None


@dataclass(frozen=True, slots=True)
class Dsn:
    scheme: str
    addresses: tuple[Address, ...]
    login: Login = Login()
    database: int = 0
    service: str = ""  # the name that sentinels know the master by
    sentinel_login: Login = Login()
    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None  # client certificate
    key_file: str | None = None  # None: the key is in cert_file
    namespace: str = "shoal"
    patience: float = 30.0
    replicas: int = 1
    servers: tuple[str, ...] = ()  # hosts or ranges that sentinels may name as the master; empty: any
    bus: str = field(default="", repr=False)  # DSN of the bus; empty: Redis Streams of the store

    def __str__(self) -> str:
        """Return the address for messages and logs, without secrets."""
        where = ",".join(map(str, self.addresses))
        return f"{self.scheme}://{where}{f'/{self.service}' if self.service else ''}"

    @property
    def cluster(self) -> bool:
        return self.scheme == "redis+cluster"


def parse(text: str) -> Dsn:
    """Parse a DSN; raise `Misconfigured` that names the wrong part, never its value."""
    try:
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise Misconfigured("store: the DSN cannot be read") from None
    scheme = parts.scheme
    if not scheme:
        raise Misconfigured("store: a fleet needs a server: pass --store redis://HOST, or set SHOAL_STORE")
    if scheme not in REDIS_SCHEMES:
        raise Misconfigured(f"store: no backend for {scheme!r}; known: a folder, {', '.join(REDIS_SCHEMES)}")
    if unknown := options.keys() - set(OPTIONS):
        raise Misconfigured(f"store: unknown option {min(unknown)!r}; known: {', '.join(OPTIONS)}")
    login, _, hosts = parts.netloc.rpartition("@")
    path = unquote(parts.path)
    return Dsn(
        scheme=scheme,
        addresses=_addresses(scheme, hosts, path),
        login=_login(login, options.get("password_file", "")),
        database=_database(scheme, path, options),
        service=_service(path) if scheme == "redis+sentinel" else "",
        sentinel_login=Login(options.get("sentinel_user", ""), options.get("sentinel_password", "")),
        tls=_tls(scheme, options),
        ca_file=options.get("ca_file"),
        cert_file=options.get("cert_file"),
        key_file=options.get("key_file"),
        namespace=_namespace(options.get("namespace", "shoal")),
        patience=_number(options, "patience_s", 30.0),
        replicas=int(_number(options, "replicas", 1)),
        servers=_servers(scheme, options.get("servers", "")),
        bus=options.get("bus", ""),
    )


def _login(text: str, password_file: str) -> Login:
    user, _, password = text.partition(":")
    if password and password_file:
        raise Misconfigured("store: the DSN has a password and a password_file; use one of them")
    return Login(unquote(user), unquote(password), password_file)


def _tls(scheme: str, options: Mapping[str, str]) -> bool:
    enabled = scheme == "rediss" or options.get("tls", "0").lower() in ("1", "true", "yes")
    if not enabled and (useless := options.keys() & {"ca_file", "cert_file", "key_file"}):
        raise Misconfigured(f"store: {min(useless)} is for TLS: use rediss://, or add tls=1")
    if "key_file" in options and "cert_file" not in options:
        raise Misconfigured("store: key_file needs cert_file, the certificate of the key")
    return enabled


def _addresses(scheme: str, hosts: str, path: str) -> tuple[Address, ...]:
    if scheme == "redis+unix":
        if not path:
            raise Misconfigured("store: redis+unix:// needs the path of a socket")
        return (Address(path),)
    port = SENTINEL_PORT if scheme == "redis+sentinel" else PORT
    addresses = tuple(_address(text, port) for text in hosts.split(","))
    if len(addresses) > 1 and scheme in ("redis", "rediss"):
        raise Misconfigured(
            f"store: {scheme}:// has one server; several: redis+cluster:// or redis+sentinel://"
        )
    return addresses


def _address(text: str, port: int) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        return Address(parts.hostname or "127.0.0.1", port if parts.port is None else parts.port)
    except ValueError:
        raise Misconfigured("store: a port in the DSN is not a number from 1 to 65535") from None


def _database(scheme: str, path: str, options: Mapping[str, str]) -> int:
    text = options.get("db", path.strip("/") if scheme in ("redis", "rediss") else "") or "0"
    if not text.isdigit():
        raise Misconfigured("store: the database in the DSN is not a number")
    if int(text) and scheme == "redis+cluster":
        raise Misconfigured("store: a cluster has one database, 0")
    return int(text)


def _service(path: str) -> str:
    if not (service := path.strip("/")):
        raise Misconfigured("store: redis+sentinel:// must end with the name of the master, as in /mymaster")
    return service


def _servers(scheme: str, text: str) -> tuple[str, ...]:
    if text and scheme != "redis+sentinel":
        raise Misconfigured(
            "store: servers is for redis+sentinel://: it lists what sentinels may name as the master"
        )
    servers = tuple(part.strip() for part in text.split(",") if part.strip())
    for server in servers:
        try:
            if "/" in server:
                ip_network(server)
        except ValueError:
            raise Misconfigured(
                "store: option servers has a range that is not one, such as 10.0.1.0/24"
            ) from None
    return servers


def _namespace(text: str) -> str:
    # Braces would change the hash tag, and with it the slot of the key in a cluster.
    if not text or set(text) & set("{}: \r\n"):
        raise Misconfigured("store: namespace must be a word without braces, colons and spaces")
    return text


def _number(options: Mapping[str, str], name: str, default: float) -> float:
    try:
        number = float(options.get(name, default))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:
        raise Misconfigured(f"store: option {name} is not a number of seconds or servers")
    return number
