"""TLS to a server: whom we trust, what we show, and what it means when the two cannot agree."""

import ssl

from shoal.model.errors import Misconfigured
from shoal.redis_client.dsn import Address, Dsn
from shoal.redis_client.errors import LOST, NO_CERTIFICATE, NO_TLS, CallFailed

# X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH; _CERT_NOT_YET_VALID and _CERT_HAS_EXPIRED.
_ANOTHER_NAME, _ANOTHER_TIME = (62, 64), (9, 10)
# What servers say that want a certificate of ours, or another one. Before TLS 1.3 some only say that they
# cannot agree.
_ABOUT_OURS = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "UNKNOWN_CA", "BAD_CERTIFICATE", "EXPIRED")


def context(dsn: Dsn) -> ssl.SSLContext | None:
    """Make what connections are opened with; None: without TLS."""
    if not dsn.tls:
        return None
    made = ssl.create_default_context()
    if dsn.ca_file:
        try:
            made.load_verify_locations(dsn.ca_file)
        except OSError as error:
            raise _unreadable("ca_file", dsn.ca_file, error) from error
    if dsn.cert_file:
        try:
            made.load_cert_chain(dsn.cert_file, dsn.key_file, password=_refuse_to_ask)
        except OSError as error:
            raise _unreadable("cert_file", dsn.cert_file, error) from error
    return made


def _refuse_to_ask() -> str:
    raise Misconfigured("store: the key of cert_file is locked with a password: take that off")


def _unreadable(option: str, path: str, error: OSError) -> Misconfigured:
    why = error.strerror
    if isinstance(error, ssl.SSLError):  # its text is the place in OpenSSL's source, or less
        why = (error.reason or "a certificate, or its key, is not in there").lower().replace("_", " ")
    return Misconfigured(f"store: {option} {path} cannot be read: {why}")


def untrusted(address: Address, error: ssl.SSLCertVerificationError) -> Misconfigured:
    """Say what is wrong with the certificate of a server, and what can be done about it."""
    if error.verify_code in _ANOTHER_NAME:
        fix = "the store has to be called by a name that its certificate has"
    elif error.verify_code in _ANOTHER_TIME:
        fix = "the server needs another one, or a clock is wrong"
    else:
        fix = "?ca_file= names an authority to trust"
    return Misconfigured(
        f"store: {address}: the certificate is not trusted ({error.verify_message.rstrip('.')}); {fix}"
    )


def failed(address: Address, error: ssl.SSLError) -> CallFailed:
    """Name what went wrong when a connection was begun, or where a server has ended it."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):  # hung up, as a server that ends does
        return CallFailed(LOST, str(address))
    reason = error.reason or ""
    ours = any(word in reason for word in _ABOUT_OURS)
    return CallFailed(
        NO_CERTIFICATE if ours else NO_TLS, str(address), detail=reason.lower().replace("_", " ")
    )
