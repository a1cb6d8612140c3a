"""An S3-compatible object store (moto) in memory, on a free port, with one bucket."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.servers.process import READY, ServerProcess, free_port

BUCKET = "pages"
SECRET = "hush-hush"


class S3Server(ServerProcess):
    def __init__(self, folder: Path) -> None:
        self.endpoint = f"http://127.0.0.1:{free_port()}"
        port = self.endpoint.rpartition(":")[2]
        super().__init__([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port], folder)

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to find the store.

        No program may be pointed at a bucket without all of it: a client that has no credentials looks for
        them at the cloud's own address, and tests never leave this machine.
        """
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    server = S3Server(folder)
    try:
        server.start()
        _make_bucket(server)
        yield server
    finally:
        server.kill()


def _make_bucket(server: S3Server) -> None:
    give_up = monotonic() + READY
    while True:
        try:
            urlopen(Request(f"{server.endpoint}/{BUCKET}", method="PUT"), timeout=READY).close()
            return
        except (URLError, ConnectionError):
            if not server.running or monotonic() > give_up:
                raise AssertionError(f"the server does not answer: {server.output()}") from None
            sleep(0.05)
