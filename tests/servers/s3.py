"""An S3-compatible object store (moto) in memory, on a free port, with one bucket."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.servers.process import READY_S, ServerProcess, free_port

BUCKET = "pages"
SECRET = "hush-hush"


class S3Server(ServerProcess):
    def __init__(self, folder: Path) -> None:
        self.endpoint = f"http://127.0.0.1:{free_port()}"
        port = self.endpoint.rpartition(":")[2]
        super().__init__([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port], folder)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a program needs to reach the store.

        Always pass all of them: a client without credentials asks the cloud's metadata address for some, and tests
        never leave this machine.
        """
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self) -> None:
        """Make the bucket, once the server answers."""
        deadline = monotonic() + READY_S
        while True:
            try:
                self._send("PUT", BUCKET)
                return
            except (URLError, ConnectionError):
                if not self.running or monotonic() > deadline:
                    raise AssertionError(f"the server does not answer: {self.output()}") from None
                sleep(0.05)

    def empty(self) -> None:
        """Delete every object of every bucket."""
        self._send("POST", "moto-api/reset")
        self._send("PUT", BUCKET)

    def _send(self, method: str, path: str) -> None:
        urlopen(Request(f"{self.endpoint}/{path}", method=method), timeout=READY_S).close()


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    server = S3Server(folder)
    try:
        server.start()
        server.make_bucket()
        yield server
    finally:
        server.kill()
