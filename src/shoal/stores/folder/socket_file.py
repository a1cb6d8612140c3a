"""The socket file of a folder: only its user can connect, and its path may be of any length."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_PATH_BYTES = 100  # the kernel's limit for the name of a socket is a little above


def bind_socket(folder: Path) -> socket.socket:
    """Create the socket, in place of one that a killed owner left behind."""
    (folder / "control").unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(folder) as path:
            listener.bind(path)
            os.chmod(path, 0o600)  # before it listens: until then no client can connect
    except OSError:
        listener.close()
        raise
    return listener


@contextmanager
def socket_address(folder: Path) -> Iterator[str]:
    """Return a path of the socket that is short enough for the kernel."""
    path = str(folder / "control")
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        yield path
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/control"
    finally:
        os.close(handle)
