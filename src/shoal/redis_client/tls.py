"""TLS: the context for connections, and the meaning of a failed handshake."""

import ssl

from shoal.model.errors import Misconfigured
from shoal.redis_client.dsn import Address, Dsn
from shoal.redis_client.errors import LOST, NO_CERTIFICATE, NO_TLS, CallFailed

# X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH; _CERT_NOT_YET_VALID and _CERT_HAS_EXPIRED.
_WRONG_NAME, _WRONG_TIME = (62, 64), (9, 10)
# Alerts of servers that want a client certificate, or another one. Before TLS 1.3 some servers only report a
# handshake failure.
_CLIENT_CERTIFICATE_ALERTS = (
    "CERTIFICATE_REQUIRED",
    "HANDSHAKE_FAILURE",
    "UNKNOWN_CA",
    "BAD_CERTIFICATE",
    "EXPIRED",
)


def ssl_context(dsn: Dsn) -> ssl.SSLContext | None:
    """Return the context for connections; None: without TLS."""
    if not dsn.tls:
        return None
    context = ssl.create_default_context()
    if dsn.ca_file:
        try:
            context.load_verify_locations(dsn.ca_file)
        except OSError as error:
            raise _unreadable("ca_file", dsn.ca_file, error) from error
    if dsn.cert_file:
        try:
            context.load_cert_chain(dsn.cert_file, dsn.key_file, password=_reject_encrypted_key)
        except OSError as error:
            raise _unreadable("cert_file", dsn.cert_file, error) from error
    return context


def _reject_encrypted_key() -> str:
    raise Misconfigured("store: the key of cert_file is encrypted with a password: remove the password")


def _unreadable(option: str, path: str, error: OSError) -> Misconfigured:
    reason = error.strerror
    if isinstance(error, ssl.SSLError):  # its strerror is a place in OpenSSL's source, or less
        reason = (error.reason or "it has no certificate, or no key").lower().replace("_", " ")
    return Misconfigured(f"store: {option} {path} cannot be read: {reason}")


def untrusted_certificate(address: Address, error: ssl.SSLCertVerificationError) -> Misconfigured:
    """Return an error that names what is wrong with a server's certificate, and the fix."""
    if error.verify_code in _WRONG_NAME:
        fix = "address the store by a name that is in its certificate"
    elif error.verify_code in _WRONG_TIME:
        fix = "the server needs another certificate, or a clock is wrong"
    else:
        fix = "?ca_file= names an authority to trust"
    return Misconfigured(
        f"store: {address}: the certificate is not trusted ({error.verify_message.rstrip('.')}); {fix}"
    )


def handshake_failure(address: Address, error: ssl.SSLError) -> CallFailed:
    """Return the failure for a TLS error during the handshake, or at the end of a connection."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):  # closed, as by a server that stops
        return CallFailed(LOST, str(address))
    reason = error.reason or ""
    ours = any(alert in reason for alert in _CLIENT_CERTIFICATE_ALERTS)
    return CallFailed(
        NO_CERTIFICATE if ours else NO_TLS, str(address), detail=reason.lower().replace("_", " ")
    )
