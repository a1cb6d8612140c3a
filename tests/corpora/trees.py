"""Documentation trees from Debian: thousands of real pages, made by as many kinds of generators as there are."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.corpora.packages import unpacked

WHOLE = os.environ.get("CORPORA") == "whole"  # `make corpora`; otherwise a cut
LARGEST = 128 * 1024  # bytes of a page; libxml2 takes minutes for some queries on tables of a few megabytes


@dataclass(frozen=True, slots=True)
class Tree:
    package: str
    folder: str  # below the root of the package
    made_by: str

    def root(self) -> Path:
        return unpacked(self.package, self.folder)

    def pages(self, most: int) -> Iterator[tuple[str, bytes]]:
        """Yield up to `most` pages from all over the tree: (path, content)."""
        root = self.root()
        files = (path for path in root.rglob("*.html") if path.is_file() and not path.is_symlink())
        paths = sorted(path for path in files if path.stat().st_size <= LARGEST)
        for path in paths[:: -(-len(paths) // most)]:
            yield f"{self.package}/{path.relative_to(root)}", path.read_bytes()


OPENJDK = Tree("openjdk-17-doc", "usr/share/doc/openjdk-17-jre-headless/api", "javadoc")
POSTGRESQL = Tree("postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html", "DocBook, XHTML with a prolog")
GIT = Tree("git-doc", "usr/share/doc/git-doc", "AsciiDoc, XHTML with a prolog")
CUT = (
    POSTGRESQL,
    GIT,
    Tree("cmake-doc", "usr/share/doc/cmake-data/html", "Sphinx"),
)
TREES = (
    *CUT,
    OPENJDK,
    Tree("apache2-doc", "usr/share/doc/apache2-doc/manual", "XSLT, in eleven languages"),
    Tree("debian-handbook", "usr/share/doc/debian-handbook/html", "Publican, in many languages"),
    Tree("erlang-doc", "usr/share/doc/erlang-doc", "XSLT, and javadoc of 2008"),
    Tree("ghc-doc", "usr/share/doc/ghc-doc/html", "Haddock"),
    Tree("libboost1.81-doc", "usr/share/doc/libboost1.81-doc", "BoostBook, and by hand"),
    Tree("libstdc++-12-doc", "usr/share/doc/gcc-12-base/libstdc++", "Doxygen and DocBook"),
    Tree("lilypond-doc-html", "usr/share/doc/lilypond/html", "texi2html, in nine languages"),
    Tree("llvm-14-doc", "usr/share/doc/llvm-14-doc/html", "Sphinx, and by hand"),
    Tree("octave-doc", "usr/share/doc/octave", "Texinfo"),
    Tree("python-scipy-doc", "usr/share/doc/python-scipy-doc/html", "Sphinx with numpydoc"),
    Tree("python3.11-doc", "usr/share/doc/python3.11/html", "Sphinx, large pages"),
    Tree("rust-doc", "usr/share/doc/rust-doc/html/std", "rustdoc"),
    Tree("sqlite3-doc", "usr/share/doc/sqlite3", "by hand, with scripts in Tcl"),
)
