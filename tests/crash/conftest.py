"""A folder for temporary files that marks the processes of a crawl."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers.process import program


@pytest.fixture
def profiles() -> Iterator[Path]:
    """A folder for the profiles of browsers, by which their processes are found."""
    program("chromium-headless-shell", "chromium-headless-shell")
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    folder.chmod(0o1777)  # as /tmp: a launcher removes the profile that it used
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
