"""`shoal init`: create a project that works before it is edited."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.input.options import Json, examples
from shoal.model.errors import Misconfigured

EXAMPLES = examples(
    ("A project in a new folder", "shoal init books"),
    ("Then try it", "cd books && pytest && shoal crawl spider.py --max-pages 20"),
)

TEMPLATES = {
    "spider.py": "spider.py.txt",
    "test_spider.py": "test_spider.py.txt",
    "shoal.toml": "shoal.toml.txt",
    "pages/book.html": "book.html.txt",
    ".gitignore": "gitignore.txt",
}
"""The files of a project, each with its template."""

Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="Where to create it; the folder may exist.")]


def command(folder: Folder = ".", json: Json = False) -> None:
    """Create a project: a spider, its settings, a saved page and a test.

    Never overwrites a file.
    """
    from shoal.cli.views.output import print_json, print_lines

    created = create_project(Path(folder))
    if json:
        print_json({"folder": folder, "files": created})
        return
    step = "" if Path(folder) == Path() else f"cd {folder} && "
    print_lines([f"created {name}" for name in created])
    print_lines(["", f"Next: {step}pytest", f"      {step}shoal crawl spider.py --max-pages 20"])


def create_project(folder: Path) -> list[str]:
    """Write every file and return their paths; write nothing and raise if one of them exists."""
    paths = {folder / name: template for name, template in TEMPLATES.items()}
    if existing := [str(path) for path in paths if path.exists() or path.is_symlink()]:
        raise Misconfigured(f"{', '.join(existing)}: already exists; name another folder: shoal init FOLDER")
    templates = files("shoal.cli") / "templates"
    try:
        for path, template in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write((templates / template).read_text("utf-8"))
    except OSError as error:
        raise Misconfigured(f"{folder}: cannot create a project here: {error.strerror or error}") from None
    return [str(path) for path in paths]
