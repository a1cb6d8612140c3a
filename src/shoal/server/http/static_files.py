"""The files of the dashboard, and the two health routes: what is answered without a token.

The files are read once, when the server starts. They hold no data: a page gets that from the API, with the
session of its user.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable

from shoal.server.http.answers import Answer

# Scripts and styles come from this server only, and none is inline.
PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    b" connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    b" require-trusted-types-for 'script'; trusted-types archived-page"
)
TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".mjs": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".json": b"application/json",
    ".woff2": b"font/woff2",
}
SHELL = "index.html"
_NO_DASHBOARD = b"<!doctype html><title>Shoal</title><p>This server has an API: see /openapi.json</p>\n"


class StaticFiles:
    """Answers /, /static/... and the pages of the dashboard, which are all the same shell: /ui/..."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self._contents = contents

    @classmethod
    def load(cls) -> "StaticFiles":
        root = files("shoal") / "dashboard" / "static"
        return cls(dict(_read(root, "")) if root.is_dir() else {})

    def find(self, method: str, raw_path: bytes) -> Answer | None:
        """Return the file of a path; None: it is not one of the dashboard."""
        if method not in ("GET", "HEAD"):
            return None
        path = raw_path.decode("ascii", "replace")
        if path in ("/", "/ui") or path.startswith("/ui/"):
            return self._answer(SHELL, self._contents.get(SHELL, _NO_DASHBOARD))
        name = "favicon.ico" if path == "/favicon.ico" else path.removeprefix("/static/")
        if name != path and name in self._contents:
            return self._answer(name, self._contents[name])
        return None

    def _answer(self, name: str, content: bytes) -> Answer:
        kind = TYPES.get(name[name.rfind(".") :], b"application/octet-stream")
        return Answer(200, content, kind, ((b"cache-control", b"no-cache"),), PAGE_POLICY)


def _read(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for one in folder.iterdir():
        name = f"{prefix}{one.name}"
        if one.is_dir():
            found += _read(one, f"{name}/")
        else:
            found.append((name, one.read_bytes()))
    return found
