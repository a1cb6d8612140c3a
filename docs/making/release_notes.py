"""Print the changelog section of a release: `python3 -m docs.making.release_notes v0.2.0`.

Fail unless the tag, the version of the package and a dated section of CHANGELOG.md agree. Standard library
only: the release job runs this before anything is installed.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def notes(tag: str, changelog: str, package_version: str) -> str:
    """Return the section of a tag; raise `ValueError` if tag, package and changelog disagree."""
    version = tag.removeprefix("v")
    if version != package_version:
        raise ValueError(
            f"tag {tag} does not match __version__ = {package_version!r} in src/shoal/__init__.py"
        )
    heading = re.compile(rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)$", re.MULTILINE)
    if (found := heading.search(changelog)) is None:
        raise ValueError(f"CHANGELOG.md has no dated section: ## {version} (YYYY-MM-DD)")
    following = re.search(r"^## ", changelog[found.end() :], re.MULTILINE)
    end = found.end() + following.start() if following else len(changelog)
    section = changelog[found.end() : end].strip()
    if not section:
        raise ValueError(f"the section of {version} in CHANGELOG.md is empty")
    return section


def main() -> int:
    source = (ROOT / "src" / "shoal" / "__init__.py").read_text()
    version = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    assert version is not None
    try:
        print(notes(sys.argv[1], (ROOT / "CHANGELOG.md").read_text(), version.group(1)))
    except ValueError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
