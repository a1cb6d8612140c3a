"""Load a spider from a file or module, and describe it.

Loading runs user code: only the fork server of a parse pool does it.
"""

import importlib
import importlib.util
import sys
import traceback
from hashlib import sha256
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import msgspec

from shoal.model.errors import Misconfigured, ShoalError
from shoal.model.failure import FailureClass
from shoal.model.rendering import Rendering
from shoal.model.request import Request
from shoal.spider.arguments import bind, name_with_arguments, refuse_arguments
from shoal.spider.pickled import PickledSpider, unpickle_spider
from shoal.spider.spider import Spider

_LISTED = 20  # names in an error message


class SpiderFile(msgspec.Struct, frozen=True, tag="file"):
    path: str  # a .py or .toml file
    attribute: str = ""  # the variable or function of the spider; empty: the only one in the file
    arguments: dict[str, tuple[str, ...]] = {}  # as they were typed


class SpiderModule(msgspec.Struct, frozen=True, tag="module"):
    module: str
    attribute: str = ""
    arguments: dict[str, tuple[str, ...]] = {}
    folder: str = ""  # where modules are looked for first: that of the command; empty: only installed ones


class PlainSpider(msgspec.Struct, frozen=True, tag="plain"):
    """A spider without code: follow every link, extract `items` from every page."""

    name: str
    start: tuple[str, ...]
    items: dict[str, str] = {}  # field name -> CSS; empty: url, status, title, depth, fetched_at, links


class SpiderText(msgspec.Struct, frozen=True, tag="text"):
    """A spider file of a crawl's record. It is never on disk: no other process can be made to load it."""

    name: str  # of the file
    text: bytes
    attribute: str = ""
    arguments: dict[str, tuple[str, ...]] = {}


StoredSpiderSource = SpiderFile | SpiderModule | PlainSpider  # what the record of a crawl can have
SpiderSource = StoredSpiderSource | SpiderText | PickledSpider


class SpiderDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What the rest of Shoal knows about a spider."""

    name: str
    start: tuple[Request, ...] = ()
    options: dict[str, Any] = {}  # settings of [crawl] that the spider sets
    hosts: tuple[str, ...] = ()  # for `Scope.of`; empty: the hosts of the seeds
    key: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    hooks: frozenset[FailureClass] = frozenset()  # failure classes that an `on_error` hook takes
    statuses: frozenset[int] = frozenset()  # of 400 and above that a handler takes
    models: bool = False  # some items are checked against a model, so some may be rejected
    version: str = ""  # digest of the code
    arguments: dict[str, str] = {}  # those that are not defaults
    render: Rendering | None = None  # how its pages are rendered; None: they are not

    @property
    def crawl(self) -> str:
        """The name of its crawl, unless the user gives another one."""
        return name_with_arguments(self.name, self.arguments)


def describe(spider: Spider) -> SpiderDescription:
    """Return the description of a loaded spider."""
    return SpiderDescription(
        name=spider.name,
        start=spider.start,
        options=spider.options,
        hosts=spider.hosts,
        key=spider.key,
        routes=tuple(spider.routes),
        hooks=frozenset(spider.hooks),
        statuses=frozenset(status for route in spider.routes.values() for status in route.statuses),
        models=any(route.check for route in (*spider.routes.values(), *spider.hooks.values())),
        version=spider.version,
        arguments=spider.arguments,
        render=spider.render,
    )


def load(source: SpiderSource) -> Spider:
    """Import a spider. Raises `Misconfigured` with one line that names the file, the line and the problem."""
    match source:
        case PlainSpider():
            from shoal.spider.builtin_spiders import plain_spider

            spider = plain_spider(source.name, source.start, source.items)
            code = msgspec.json.encode(source, order="sorted")
        case SpiderFile(path):
            code, folder = _read(Path(path)), str(Path(path).resolve().parent)
            spider = _load_text(code, path, source, folder)
        case SpiderText(name, code):
            spider = _load_text(code, name, source)
        case SpiderModule():
            if source.folder and source.folder not in sys.path:
                sys.path.insert(0, source.folder)
            module = _import_module(source.module)
            code = Path(module.__file__).read_bytes() if module.__file__ else b""
            spider = _find(module, source, source.module)
        case PickledSpider():
            spider, code = unpickle_spider(source), source.version.encode()
    if not spider.routes:
        raise Misconfigured(f"spider {spider.name!r} has no handler: decorate a function with @spider.page()")
    spider.version = sha256(code).hexdigest()[:12]
    return spider


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror or error}") from None


def _load_text(code: bytes, path: str, source: SpiderFile | SpiderText, folder: str = "") -> Spider:
    """Return the spider of a file's text; it can import files of `folder`, if there is one."""
    if path.endswith(".toml"):
        from shoal.spider.toml_spider import toml_spider

        if source.attribute:
            raise Misconfigured(f"{path}: a TOML file has one spider: leave out :{source.attribute}")
        return toml_spider(code.decode("utf-8", "replace"), path, source.arguments)
    # A unique module name: a spider file called json.py must not replace the module json.
    name = f"shoal_spider_{sha256(f'{folder}/{path}'.encode()).hexdigest()[:8]}_{Path(path).stem}"
    spec = importlib.util.spec_from_loader(name, loader=None, origin=path)
    assert spec
    module = importlib.util.module_from_spec(spec)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses look up the module of a class
    if folder:
        sys.path.insert(0, folder)
    try:
        exec(compile(code, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except BaseException as error:
        raise _load_error(path, error) from error
    return _find(module, source, path)


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except BaseException as error:
        raise _load_error(name, error) from error


def _load_error(where: str, error: BaseException) -> ShoalError:
    """Return an error that says on one line why user code could not be imported, and at which line."""
    match error:
        case KeyboardInterrupt() | MemoryError():
            raise error
        case SyntaxError():
            place = f"{error.filename or where}:{error.lineno or 1}"
            return Misconfigured(f"{place}: {type(error).__name__}: {error.msg}")
        case ShoalError():
            text = str(error)
        case SystemExit():
            text = "it calls sys.exit() while it is imported"
        case _:
            text = f"{type(error).__name__}: {error}".partition("\n")[0]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
    return Misconfigured(f"{where}:{frames[-1].lineno}: {text}" if frames else f"{where}: {text}")


def _find(module: ModuleType, source: SpiderFile | SpiderText | SpiderModule, where: str) -> Spider:
    """Return the spider that the source names, or the only one; one that a function makes, with arguments."""
    found, factories = _spiders(module), _factories(module)
    if source.attribute:
        value = getattr(module, source.attribute, None)
        if isinstance(value, Spider):
            refuse_arguments(source.arguments, f"{where}:{source.attribute}")
            return value
        if isinstance(value, FunctionType) and _returns_spider(value.__annotations__.get("return")):
            return _make(value, source, f"{where}:{source.attribute}")
        hint = ": a function that makes one says so (-> shoal.Spider)" if callable(value) else ""
        known = _names([*found, *factories])
        raise Misconfigured(f"{where}: {source.attribute} is not a spider{hint}; it has {known}")
    if len(factories) == 1 and (source.arguments or not found):
        return _make(next(iter(factories.values())), source, where)
    if not found and not factories:
        raise Misconfigured(f"{where}: no spider in it: create one with spider = shoal.Spider(...)")
    if len(found) != 1:
        names = [*found, *factories]
        raise Misconfigured(
            f"{where}: {len(names)} spiders in it ({_names(names)}): choose one with {where}:{names[0]}"
        )
    refuse_arguments(source.arguments, where)
    return next(iter(found.values()))


def _spiders(module: ModuleType) -> dict[str, Spider]:
    by_id = {id(value): name for name, value in reversed(vars(module).items()) if isinstance(value, Spider)}
    return {name: value for name, value in vars(module).items() if by_id.get(id(value)) == name}


def _factories(module: ModuleType) -> dict[str, FunctionType]:
    """Return the functions of a module that say that they return a spider."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType)
        and value.__module__ == module.__name__
        and _returns_spider(value.__annotations__.get("return"))
    }


def _returns_spider(annotation: object) -> bool:
    if isinstance(annotation, str):
        return annotation.strip("'\"").rpartition(".")[2] == "Spider"
    return annotation is Spider


def _make(factory: Any, source: SpiderFile | SpiderText | SpiderModule, where: str) -> Spider:
    arguments, changed = bind(factory, source.arguments, where)
    try:
        spider = factory(**arguments)
    except BaseException as error:
        raise _load_error(where.partition(":")[0], error) from error
    if not isinstance(spider, Spider):
        raise Misconfigured(f"{where}: it must return a Spider, not a {type(spider).__name__}")
    spider.arguments = changed
    return spider


def _names(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) or "none"
