"""Settings in layers: defaults, then `shoal.toml`, then `SHOAL_*` variables, then flags."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal.model.configure import configure, from_environment, from_tree, parse_setting
from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings
from shoal.stores.address import check_store

FILE = "shoal.toml"
SWITCHES = frozenset({"SHOAL_DEBUG"})  # variables that are no settings
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    settings: Settings
    overrides: frozenset[str]  # settings of [crawl] that somebody set: they beat a spider's own


def load_settings(flags: Mapping[str, object], *, config: str | None = None) -> LoadedSettings:
    """Gather the layers of this process; raises `Misconfigured` at the first value that cannot be."""
    return layered(flags, environ=os.environ, file=_find(config))


def chosen_store(flag: str | None, *, config: str | None) -> str:
    """Find the store for a command that only looks at one."""
    return load_settings({} if flag is None else {"store": flag}, config=config).settings.store


def layered(flags: Mapping[str, object], *, environ: Mapping[str, str], file: Path | None) -> LoadedSettings:
    """Put the layers on top of one another."""
    given = [
        *(from_tree(_read(file), file.name) if file else ()),
        *from_environment(environ, besides=SWITCHES),
        *(parse_setting(key, value, flag_of(key)) for key, value in flags.items()),
    ]
    crawl = (one.key.partition("crawl.")[2] for one in given)
    settings = configure(given)
    check_store(settings.store)
    return LoadedSettings(settings, frozenset(name for name in crawl if name))


def flag_of(key: str) -> str:
    """Name the flag that sets a key: `crawl.max_pages` is `--max-pages`."""
    return "--" + key.rpartition(".")[2].replace("_", "-")


def _find(config: str | None) -> Path | None:
    if config is not None:
        return Path(config)
    return Path(FILE) if Path(FILE).exists() else None


def _read(file: Path) -> dict[str, object]:
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise Misconfigured(f"{file}: larger than any settings file can be")
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise Misconfigured(f"{file}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file}: not valid TOML: {error}") from None
