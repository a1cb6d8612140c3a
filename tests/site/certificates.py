"""A certificate authority for one test run, made with the openssl command."""

import ssl
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

CONFIG = """
[ca]
default_ca = here
[here]
dir = {folder}
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""


@dataclass(frozen=True)
class Authority:
    """Signs certificates; `file` is what a client has to trust."""

    folder: Path

    @property
    def file(self) -> str:
        return str(self.folder / "ca.pem")

    def server(
        self,
        names: str,
        *,
        start: str = "20200101000000Z",
        end: str = "20900101000000Z",
        padding: int = 0,
        primes: tuple[int, int] | None = None,
    ) -> ssl.SSLContext:
        """Make a server's context for `names` (as in subjectAltName), valid from `start` to `end`.

        `padding`: needless certificates sent along. `primes`: of an RSA key, in place of an elliptic curve.
        """
        certificate, key = self.issue(names, start=start, end=end, padding=padding, primes=primes)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    def issue(
        self,
        names: str,
        *,
        start: str = "20200101000000Z",
        end: str = "20900101000000Z",
        padding: int = 0,
        primes: tuple[int, int] | None = None,
    ) -> tuple[str, str]:
        """Make a server's certificate and key, like `server`, as files."""
        slug = sha256(f"{names}-{start}-{end}-{padding}-{primes}".encode()).hexdigest()
        key, request, certificate = (self.folder / f"{slug}.{kind}" for kind in ("key", "csr", "pem"))
        if not certificate.exists():
            self._run(
                "req",
                "-new",
                "-subj",
                "/CN=test",
                "-addext",
                f"subjectAltName={names}",
                "-out",
                str(request),
                *(
                    ("-keyout", str(key), *_KEY)
                    if primes is None
                    else ("-key", str(self._rsa_key(key, *primes)))
                ),
            )
            self._run(
                "ca",
                "-batch",
                "-notext",
                "-config",
                str(self.folder / "config"),
                "-cert",
                self.file,
                "-keyfile",
                str(self.folder / "ca.key"),
                "-in",
                str(request),
                "-out",
                str(certificate),
                "-startdate",
                start,
                "-enddate",
                end,
            )
            if padding:
                certificate.write_text(certificate.read_text() + Path(self.file).read_text() * padding)
        return str(certificate), str(key)

    def self_signed(self) -> ssl.SSLContext:
        """Return a server context whose certificate no authority has signed."""
        key, certificate = self.folder / "self.key", self.folder / "self.pem"
        self._run(
            "req",
            "-x509",
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
            *_KEY,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    def _rsa_key(self, path: Path, p: int, q: int) -> Path:
        """Write a key down: finding primes of that size would take minutes, knowing them takes none."""
        secret = pow(EXPONENT, -1, (p - 1) * (q - 1))
        numbers = (0, p * q, EXPONENT, secret, p, q, secret % (p - 1), secret % (q - 1), pow(q, -1, p))
        lines = [f"n{place} = INTEGER:{number:#x}" for place, number in enumerate(numbers)]
        config, der = path.with_suffix(".asn1"), path.with_suffix(".der")
        config.write_text("\n".join(["asn1 = SEQUENCE:key", "[key]", *lines]))
        self._run("asn1parse", "-genconf", str(config), "-noout", "-out", str(der))
        self._run("rsa", "-inform", "DER", "-in", str(der), "-out", str(path))
        return path

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


EXPONENT = 65_537  # of RSA keys

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make_authority(folder: Path) -> Authority:
    """Create an authority in an empty folder."""
    authority = Authority(folder)
    (folder / "index").touch()
    (folder / "serial").write_text("01")
    (folder / "config").write_text(CONFIG.format(folder=folder))
    authority._run(
        "req",
        "-x509",
        "-subj",
        "/CN=Test authority",
        "-days",
        "3650",
        "-keyout",
        str(folder / "ca.key"),
        "-out",
        authority.file,
        *_KEY,
    )
    return authority
