"""Send a spider that lives in a program to parse processes by value.

A spider of a script, a notebook or a test may be in no file that a parse process could load: the cells of a
notebook are not a module, and running a script a second time would repeat everything else in it. So the
spider itself is sent: functions of modules that a new process can import are sent by name, all others by
value, together with the globals that they use. A copy is a copy: what a handler changes in a global variable
stays in the parse process.

Loading a pickle runs code, so where it comes from decides. This one comes from the program that started the
parse process, over a socket pair that only the two of them have, and is loaded by the fork server inside of
the sandbox: the same code in the same place as the file of a spider. It never comes from a store or a
network: the record of a crawl has no place for it (`StoredSpiderSource`), and a record that names one is
refused before any of it is read.
"""

import io
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import msgspec

from shoal.model.errors import Misconfigured
from shoal.spider.spider import Spider

_MSGSPEC_CACHE = "__msgspec_cache__"  # what msgspec stores in a dataclass; it cannot be copied
MAX_PICKLED_BYTES = 8 << 20  # as for the file of a spider


class PickledSpider(msgspec.Struct, frozen=True, tag="pickled"):
    """A spider by value."""

    name: str
    payload: bytes
    python: str  # byte code of one minor version does not run in another: "3.11"
    version: str  # digest of the code


def running_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def pickle_spider(spider: Spider) -> PickledSpider:
    """Return a copy of a spider that a parse process can load.

    Raise `Misconfigured` that names the handler if something that it uses cannot be sent.
    """
    functions = list(_functions(spider))
    _refuse_models(spider)
    with _by_value(functions):
        try:
            payload = _dumps(spider)
        except Exception as error:  # the `__reduce__` of any object may run
            raise Misconfigured(_why_not(spider, error)) from error
    if len(payload) > MAX_PICKLED_BYTES:
        raise Misconfigured(
            f"spider {spider.name!r}: its handlers use {len(payload) >> 20} MiB of data of this program, and"
            f" {MAX_PICKLED_BYTES >> 20} MiB can be sent: let them read a file (parse.readable)"
        )
    return PickledSpider(spider.name, payload, running_python(), code_digest(functions))


def unpickle_spider(source: PickledSpider) -> Spider:
    """Load a spider; raise `Misconfigured` if that is not possible in this process."""
    if source.python != running_python():
        raise Misconfigured(
            f"spider {source.name!r}: its code was sent by Python {source.python}, and this is Python"
            f" {running_python()}: use the same one, or put the spider into a file"
        )
    try:
        spider = pickle.loads(source.payload)  # noqa: S301 - a spider is code; the sandbox holds it
    except Exception as error:
        raise Misconfigured(
            f"spider {source.name!r}: cannot be loaded in a parse process: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(spider, Spider):
        raise Misconfigured(f"spider {source.name!r}: not a Spider")
    return spider


def _functions(spider: Spider) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the handlers and hooks of a spider by name."""
    for name, route in spider.routes.items():
        yield name, route.handler
    for failure_class in sorted(spider.hooks):
        yield f"on_error {failure_class}", spider.hooks[failure_class].handler


def _refuse_models(spider: Spider) -> None:
    """Raise for item models that lose their fields when they are copied: only dataclasses keep them."""
    for route in (*spider.routes.values(), *spider.hooks.values()):
        name, model = route.name, route.model
        if model is None or hasattr(model, "__dataclass_fields__") or _is_importable(model.__module__):
            continue
        raise Misconfigured(
            f"spider {spider.name!r}: handler {name!r}: the model {model.__name__} is defined in this"
            " program, and only dataclasses can be sent to a parse process: make it a dataclass, or put it"
            " into a module and import it"
        )


def _dumps(value: object) -> bytes:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
        def reducer_override(self, found: Any) -> Any:
            if isinstance(found, type) and _MSGSPEC_CACHE in vars(found):
                delattr(found, _MSGSPEC_CACHE)  # msgspec fills it again
            return super().reducer_override(found)

    with io.BytesIO() as file:
        Pickler(file).dump(value)
        return file.getvalue()


def _why_not(spider: Spider, error: Exception) -> str:
    for name, function in _functions(spider):
        try:
            _dumps(function)
        except Exception as own:
            return (
                f"spider {spider.name!r}: handler {name!r} uses something that cannot be sent to a parse"
                f" process: {own}: create it inside of the handler"
            )
    return f"spider {spider.name!r}: cannot be sent to a parse process: {error}"


# --- by name or by value -----------------------------------------------------------------------------------


@contextmanager
def _by_value(functions: Iterable[tuple[str, Callable[..., object]]]) -> Iterator[None]:
    """Have the modules of `functions` that a new process cannot import sent by value.

    What `__main__` defines always is.
    """
    import cloudpickle

    names = {function.__module__ for _, function in functions if function.__module__ != "__main__"}
    modules = [sys.modules[name] for name in sorted(names) if name in sys.modules]
    registered = [module for module in modules if not _is_importable(module.__name__)]
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _is_importable(name: str) -> bool:
    """Return whether a new process with the same `sys.path` would import the same file under this name."""
    module = sys.modules.get(name)
    if name == "__main__" or module is None:
        return False
    path, found = None, None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        found = _find_spec(".".join(parts[:end]), path)
        if found is None:
            return False
        path = found.submodule_search_locations
    origin, file = getattr(found, "origin", None), getattr(module, "__file__", None)
    if origin is None or file is None:
        return file is None
    return Path(origin).resolve() == Path(file).resolve()


def _find_spec(name: str, path: object) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if (find := getattr(finder, "find_spec", None)) is not None and (
            spec := find(name, path)
        ) is not None:
            return spec  # type: ignore[no-any-return]
    return None


# --- the version of the code -------------------------------------------------------------------------------


def code_digest(functions: Iterable[tuple[str, Callable[..., object]]]) -> str:
    """Return a digest that changes with the code of the handlers and of the functions that they call.

    A handler in an importable module stands for its whole file. The digest is the same in every session of a
    notebook: names of cells and line numbers do not count.
    """
    digest = sha256()
    seen: set[int] = set()

    def add(*parts: object) -> None:
        digest.update(repr(parts).encode())

    def add_code(code: CodeType) -> None:
        add(code.co_name, code.co_code, code.co_names, code.co_varnames)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                add_code(constant)
            else:
                add(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)

    def add_function(function: FunctionType) -> None:
        if id(function) in seen:
            return
        seen.add(id(function))
        module = sys.modules.get(function.__module__)
        if isinstance(module, ModuleType) and _is_importable(function.__module__):
            add(function.__qualname__, _file_digest(module))
            return
        add_code(function.__code__)
        add_values(function.__defaults__ or ())
        add_values(cell.cell_contents for cell in function.__closure__ or ())
        names = sorted(_global_names(function.__code__))
        add_values(function.__globals__[name] for name in names if name in function.__globals__)

    def add_values(values: Iterable[object]) -> None:
        for value in values:
            if isinstance(value, FunctionType):
                add_function(value)
            elif isinstance(value, str | bytes | int | float | None):
                add(value)
            else:
                add(type(value).__qualname__)

    for name, function in functions:
        add(name)
        if isinstance(function, FunctionType):
            add_function(function)
    return digest.hexdigest()[:12]


def _global_names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_global_names, inner))


def _file_digest(module: ModuleType) -> str:
    try:
        return sha256(Path(module.__file__ or "").read_bytes()).hexdigest()
    except OSError:
        return ""
