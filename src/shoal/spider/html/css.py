"""CSS queries, compiled once: what to ask Lexbor, and what to take from what it finds.

The meaning is parsel's. `::text` takes an element's own text nodes and `::attr(x)` an attribute; with nothing
or `*` before them (`p ::text`) they reach into the descendants. Below an element, every part of a query looks
for its match in that element and below it. Lexbor would also look above, so there the leftmost part is
confined to what bears a mark (`SCOPE`), which the asker puts on the element for the time of the query.

A query that cssselect cannot read may still be one that Lexbor understands; the other way round there is
`xpath_of`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

import cssselect
from cssselect.parser import CombinedSelector, Element, FunctionalPseudoElement
from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, SelectolaxError

# One for all pages: `tree.css` would build its own for each, at the price of two queries.
lexbor = LexborCSSSelector()  # type: ignore[no-untyped-call]

SCOPE = "data-shoal-scope"
_CONFINED = f":is([{SCOPE}],[{SCOPE}] *)"
_PSEUDO_ELEMENT = re.compile(r"::(text|attr\(\s*(['\"]?)([^'\"()]+)\2\s*\))\s*$")

_translators = {False: cssselect.HTMLTranslator(), True: cssselect.GenericTranslator()}
_probe = LexborHTMLParser(f"<p {SCOPE}></p>")


class Take(Enum):
    ELEMENT = auto()
    TEXT = auto()
    ATTRIBUTE = auto()


@dataclass(frozen=True, slots=True)
class Query:
    """What a query asks for. Not `native`: Lexbor cannot answer it."""

    native: bool = True
    take: Take = Take.ELEMENT
    attribute: str = ""
    deep: bool = False  # take from the descendants too
    css: str = ""  # for Lexbor, from the whole page; empty: take from the context itself
    scoped: str = ""  # for Lexbor, from an element
    marks_root: bool = False  # `css` relies on the mark
    marks: bool = False  # `scoped` relies on the mark
    beside: bool = False  # reaches siblings, even of the context itself
    several: bool = False  # a list, in which one element can match twice


@lru_cache(maxsize=1024)
def compiled(query: str) -> Query:
    """Compile a query, or raise ValueError if nobody can make sense of it."""
    try:
        groups = cssselect.parse(query)
        xpath_of(query)
    except (cssselect.SelectorError, ValueError) as error:
        return _by_lexbor_alone(query, error)
    takes = {_take(group) for group in groups}
    if len(takes) > 1:
        return Query(native=False)
    return _native(groups, *takes.pop())


@lru_cache(maxsize=1024)
def xpath_of(query: str, *, xml: bool = False) -> str:
    """Translate a query, or raise ValueError."""
    try:
        return " | ".join(_xpath(group, _translators[xml]) for group in cssselect.parse(query))
    except cssselect.SelectorError as error:
        raise ValueError(f"not a CSS selector: {query!r}: {error}") from None


def _native(groups: Sequence[cssselect.Selector], take: Take, attribute: str) -> Query:
    trees = [group.parsed_tree for group in groups]
    deep = take is not Take.ELEMENT and all(_ends_in_anything(tree) for tree in trees)
    if deep:
        trees = [tree.selector for tree in trees if isinstance(tree, CombinedSelector)]
    elif take is not Take.ELEMENT and any(_ends_in_anything(tree) for tree in trees):
        return Query(native=False)  # some reach into descendants and some do not
    css = ", ".join(_whole(tree) for tree in trees).replace(":scope", f"[{SCOPE}]")
    beside = any(_has_siblings(tree) for tree in trees)
    confine = _left if beside else _confined
    scoped = ", ".join(confine(tree) for tree in trees).replace(":scope", f"[{SCOPE}]")
    return Query(
        native=len(trees) in (0, len(groups)) and _lexbor_knows(css) and _lexbor_knows(scoped),
        take=take,
        attribute=attribute,
        deep=deep,
        css=css,
        scoped=scoped,
        marks_root=SCOPE in css,
        marks=SCOPE in scoped,
        beside=beside,
        several=len(trees) > 1,
    )


def _by_lexbor_alone(query: str, error: Exception) -> Query:
    found = _PSEUDO_ELEMENT.search(query)
    if not found:
        take, attribute, css = Take.ELEMENT, "", query
    else:
        take = Take.TEXT if found[1] == "text" else Take.ATTRIBUTE
        attribute, css = found[3] or "", query[: found.start()]
    if not css.strip() or not _lexbor_knows(css):
        raise ValueError(f"not a CSS selector: {query!r}: {error}") from None
    deep = take is not Take.ELEMENT and css[-1].isspace()
    return Query(take=take, attribute=attribute, deep=deep, css=css, scoped=css, several=True)


def _take(group: cssselect.Selector) -> tuple[Take, str]:
    match group.pseudo_element:
        case None:
            return Take.ELEMENT, ""
        case "text":
            return Take.TEXT, ""
        case FunctionalPseudoElement(name="attr") as function if function.argument_types() in (
            ["STRING"],
            ["IDENT"],
        ):
            return Take.ATTRIBUTE, str(function.arguments[0].value)
    raise cssselect.ExpressionError(f"only ::text and ::attr(name) are known, not {group.canonical()}")


def _ends_in_anything(tree: object) -> bool:
    """Tell whether a query ends in `*` below something, or is nothing but `*`."""
    if isinstance(tree, CombinedSelector):
        return tree.combinator == " " and _is_anything(tree.subselector)
    return _is_anything(tree)


def _is_anything(tree: object) -> bool:
    return isinstance(tree, Element) and tree.element is None and tree.namespace is None


def _whole(tree: cssselect.parser.Tree) -> str:
    if isinstance(tree, CombinedSelector):
        return _whole(tree.selector) + _right(tree)
    return str(tree.canonical())


def _confined(tree: cssselect.parser.Tree) -> str:
    if not isinstance(tree, CombinedSelector):
        return str(tree.canonical())
    return _left(tree.selector) + _right(tree)


def _left(tree: cssselect.parser.Tree) -> str:
    if isinstance(tree, CombinedSelector):
        return _left(tree.selector) + _right(tree)
    return str(tree.canonical()) + _CONFINED


def _right(tree: CombinedSelector) -> str:
    combinator = " " if tree.combinator == " " else f" {tree.combinator} "
    part = str(tree.subselector.canonical())
    # `*.x` is `.x`, sooner found. But `*:not(.x)` keeps its star: of a part that begins with a pseudo-class,
    # Lexbor tries the nearest ancestor and no other.
    return combinator + (part.removeprefix("*") if part[1:2] in (".", "#", "[") else part)


def _has_siblings(tree: object) -> bool:
    return isinstance(tree, CombinedSelector) and (tree.combinator in "+~" or _has_siblings(tree.selector))


def _xpath(group: cssselect.Selector, translator: cssselect.GenericTranslator) -> str:
    take, attribute = _take(group)
    path = str(translator.selector_to_xpath(group))
    if take is Take.ELEMENT:
        return path
    if path.endswith("::*/*"):
        path = path[:-2]
    if take is Take.ATTRIBUTE:
        return f"{path}/attribute::*[name() = {translator.xpath_literal(attribute)}]"
    return "descendant-or-self::text()" if path == "descendant-or-self::*" else f"{path}/text()"


def _lexbor_knows(css: str) -> bool:
    try:
        _probe.css(css or "*")
    except SelectolaxError:
        return False
    return True
