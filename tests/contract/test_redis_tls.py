"""TLS: trusted authorities, client certificates, and the errors of failed handshakes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.contract.test_redis_addresses import count, refusal
from tests.servers.process import free_port
from tests.servers.redis import redis7
from tests.site.certificates import Authority, make_authority

from shoal.model.errors import Unavailable


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return make_authority(tmp_path)


def _text_of(file: str) -> str:
    return Path(file).read_text()


@asynccontextmanager
async def serving(
    authority: Authority, names: str = "IP:127.0.0.1", *, end: str = "20900101000000Z", clients: str = "no"
) -> AsyncIterator[str]:
    """Run a server with a certificate; yield its address."""
    certificate, key = authority.issue(names, end=end)
    port = free_port()
    tls = ("--tls-port", str(port), "--tls-cert-file", certificate, "--tls-key-file", key)
    options = ("--tls-ca-cert-file", authority.file, "--tls-auth-clients", clients)
    async with redis7(authority.folder / f"server-{port}", *tls, *options):
        yield f"rediss://127.0.0.1:{port}"


async def test_only_the_named_authority_is_trusted(authority: Authority) -> None:
    async with serving(authority) as dsn:
        assert await count(f"{dsn}?ca_file={authority.file}") == 1
        assert "?ca_file= names an authority to trust" in await refusal(dsn)
        with pytest.raises(Unavailable, match="a port for TLS takes rediss://"):
            await count(f"{dsn.replace('rediss', 'redis')}?patience_s=0")


async def test_a_certificate_for_another_name_is_rejected(authority: Authority) -> None:
    async with serving(authority, "DNS:queue.test,IP:127.0.0.9") as dsn:
        said = await refusal(f"{dsn}?ca_file={authority.file}")
    assert "not valid for '127.0.0.1'" in said
    assert "by a name that is in its certificate" in said


async def test_an_expired_certificate_is_rejected(authority: Authority) -> None:
    async with serving(authority, end="20210101000000Z") as dsn:
        assert "has expired); the server needs another certificate" in await refusal(
            f"{dsn}?ca_file={authority.file}"
        )


async def test_a_client_certificate_is_sent_to_a_server_that_requires_one(
    authority: Authority, tmp_path: Path
) -> None:
    ours, key = authority.issue("DNS:worker.test")
    (tmp_path / "both.pem").write_text("".join(map(_text_of, (ours, key))))
    (tmp_path / "elsewhere").mkdir()
    strange, strange_key = make_authority(tmp_path / "elsewhere").issue("DNS:worker.test")
    async with serving(authority, clients="yes") as address:
        dsn = f"{address}?ca_file={authority.file}"
        assert await count(f"{dsn}&cert_file={ours}&key_file={key}") == 1
        assert await count(f"{dsn}&cert_file={tmp_path / 'both.pem'}") == 2
        for wrong in (dsn, f"{dsn}&cert_file={strange}&key_file={strange_key}"):
            assert "requires a client certificate that it trusts: ?cert_file=" in await refusal(wrong)


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("ca_file=/nowhere", "ca_file /nowhere cannot be read: No such file"),
        ("ca_file={key}", "cannot be read: no certificate"),
        ("cert_file=/nowhere", "cert_file /nowhere cannot be read: No such file"),
        ("cert_file={certificate}", "cannot be read: it has no certificate, or no key"),
        ("cert_file={certificate}&key_file={other}", "cannot be read: key values mismatch"),
    ],
)
async def test_unusable_certificate_files_are_named(
    authority: Authority, option: str, complaint: str
) -> None:
    (certificate, key), (_, other) = authority.issue("DNS:a.test"), authority.issue("DNS:b.test")
    files = option.format(certificate=certificate, key=key, other=other)

    assert complaint in await refusal(f"rediss://127.0.0.1:1?{files}")
