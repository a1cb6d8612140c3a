"""`shoal init`: a project to start from, that works before a line of it is changed."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.input.options import Json, examples
from shoal.model.errors import Misconfigured

EXAMPLES = examples(
    ("A project in a folder of its own", "shoal init books"),
    ("Then try it", "cd books && pytest && shoal crawl spider.py --max-pages 20"),
)

FILES = {
    "spider.py": "spider.py.txt",
    "test_spider.py": "test_spider.py.txt",
    "shoal.toml": "shoal.toml.txt",
    "pages/book.html": "book.html.txt",
    ".gitignore": "gitignore.txt",
}
"""What is made, and the template that it is made of."""

Folder = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Where to make it; the folder may be there already.")
]


def command(folder: Folder = ".", json: Json = False) -> None:
    """Make a project: a spider, its settings, a saved page and a test.

    Nothing that is there is overwritten.
    """
    from shoal.cli.views.output import put, put_json

    made = make_project(Path(folder))
    if json:
        put_json({"folder": folder, "files": made})
        return
    step = "" if Path(folder) == Path() else f"cd {folder} && "
    put("\n".join([f"made {name}" for name in made]))
    put(f"\nNext: {step}pytest\n      {step}shoal crawl spider.py --max-pages 20")


def make_project(folder: Path) -> list[str]:
    """Write every file, or none if one of them is there already; returns their paths."""
    paths = {folder / name: template for name, template in FILES.items()}
    if there := [str(path) for path in paths if path.exists() or path.is_symlink()]:
        raise Misconfigured(f"{', '.join(there)}: there already; name another folder: shoal init FOLDER")
    templates = files("shoal.cli") / "templates"
    try:
        for path, template in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write((templates / template).read_text("utf-8"))
    except OSError as error:
        raise Misconfigured(f"{folder}: cannot make a project here: {error.strerror or error}") from None
    return [str(path) for path in paths]
