"""Compile CSS queries: the selector to pass to Lexbor, and what to extract from its matches.

The semantics are parsel's. `::text` selects an element's own text nodes and `::attr(x)` an attribute; with
nothing or `*` before them (`p ::text`) they include the descendants. A query on an element matches in that
element and below it. Lexbor would also match parts of the query above it, so the leftmost part is restricted
to elements with the attribute `SCOPE`, which the caller sets on the element while the query runs.

A query that cssselect cannot parse may still be valid for Lexbor. A query that Lexbor cannot answer is
translated to XPath (`xpath_of`) and answered by lxml.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

import cssselect
from cssselect.parser import CombinedSelector, Element, FunctionalPseudoElement
from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, SelectolaxError

# One for all pages: `tree.css` would build one per page, which costs as much as two queries.
lexbor_selector = LexborCSSSelector()  # type: ignore[no-untyped-call]

SCOPE = "data-shoal-scope"
_IN_SCOPE = f":is([{SCOPE}],[{SCOPE}] *)"
_PSEUDO_ELEMENT = re.compile(r"::(text|attr\(\s*(['\"]?)([^'\"()]+)\2\s*\))\s*$")

_translators = {False: cssselect.HTMLTranslator(), True: cssselect.GenericTranslator()}
_probe = LexborHTMLParser(f"<p {SCOPE}></p>")


class ResultType(Enum):
    ELEMENT = auto()
    TEXT = auto()
    ATTRIBUTE = auto()


@dataclass(frozen=True, slots=True)
class Query:
    """A compiled query."""

    native: bool = True  # False: Lexbor cannot answer it
    result: ResultType = ResultType.ELEMENT
    attribute: str = ""
    deep: bool = False  # extract from the descendants too
    css: str = ""  # for Lexbor, on the whole page; empty: extract from the context itself
    scoped: str = ""  # for Lexbor, on an element
    css_uses_scope: bool = False  # `css` needs the attribute SCOPE to be set
    scoped_uses_scope: bool = False  # `scoped` needs it
    has_siblings: bool = False  # matches siblings, even of the context itself
    several: bool = False  # a comma-separated list, in which one element can match twice


@lru_cache(maxsize=1024)
def compile_query(query: str) -> Query:
    """Compile a query. Raises `ValueError` if neither cssselect nor Lexbor can parse it."""
    try:
        groups = cssselect.parse(query)
        xpath_of(query)
    except (cssselect.SelectorError, ValueError) as error:
        return _compile_for_lexbor(query, error)
    results = {_result_type(group) for group in groups}
    if len(results) > 1:
        return Query(native=False)
    return _compile_native(groups, *results.pop())


@lru_cache(maxsize=1024)
def xpath_of(query: str, *, xml: bool = False) -> str:
    """Translate a query to XPath. Raises `ValueError` if cssselect cannot parse it."""
    try:
        return " | ".join(_xpath(group, _translators[xml]) for group in cssselect.parse(query))
    except cssselect.SelectorError as error:
        raise ValueError(f"not a CSS selector: {query!r}: {error}") from None


def _compile_native(groups: Sequence[cssselect.Selector], result: ResultType, attribute: str) -> Query:
    trees = [group.parsed_tree for group in groups]
    deep = result is not ResultType.ELEMENT and all(_ends_in_anything(tree) for tree in trees)
    if deep:
        trees = [tree.selector for tree in trees if isinstance(tree, CombinedSelector)]
    elif result is not ResultType.ELEMENT and any(_ends_in_anything(tree) for tree in trees):
        return Query(native=False)  # some include descendants and some do not
    css = ", ".join(_whole(tree) for tree in trees).replace(":scope", f"[{SCOPE}]")
    has_siblings = any(_has_siblings(tree) for tree in trees)
    restrict = _restrict_leftmost if has_siblings else _restrict
    scoped = ", ".join(restrict(tree) for tree in trees).replace(":scope", f"[{SCOPE}]")
    return Query(
        native=len(trees) in (0, len(groups)) and _lexbor_knows(css) and _lexbor_knows(scoped),
        result=result,
        attribute=attribute,
        deep=deep,
        css=css,
        scoped=scoped,
        css_uses_scope=SCOPE in css,
        scoped_uses_scope=SCOPE in scoped,
        has_siblings=has_siblings,
        several=len(trees) > 1,
    )


def _compile_for_lexbor(query: str, error: Exception) -> Query:
    """Compile a query that cssselect cannot parse. Raises `ValueError` if Lexbor cannot either."""
    found = _PSEUDO_ELEMENT.search(query)
    if not found:
        result, attribute, css = ResultType.ELEMENT, "", query
    else:
        result = ResultType.TEXT if found[1] == "text" else ResultType.ATTRIBUTE
        attribute, css = found[3] or "", query[: found.start()]
    if not css.strip() or not _lexbor_knows(css):
        raise ValueError(f"not a CSS selector: {query!r}: {error}") from None
    deep = result is not ResultType.ELEMENT and css[-1].isspace()
    return Query(result=result, attribute=attribute, deep=deep, css=css, scoped=css, several=True)


def _result_type(group: cssselect.Selector) -> tuple[ResultType, str]:
    match group.pseudo_element:
        case None:
            return ResultType.ELEMENT, ""
        case "text":
            return ResultType.TEXT, ""
        case FunctionalPseudoElement(name="attr") as function if function.argument_types() in (
            ["STRING"],
            ["IDENT"],
        ):
            return ResultType.ATTRIBUTE, str(function.arguments[0].value)
    raise cssselect.ExpressionError(f"only ::text and ::attr(name) are supported, not {group.canonical()}")


def _ends_in_anything(tree: object) -> bool:
    """Return whether a query ends in a descendant `*`, or is `*` alone."""
    if isinstance(tree, CombinedSelector):
        return tree.combinator == " " and _is_anything(tree.subselector)
    return _is_anything(tree)


def _is_anything(tree: object) -> bool:
    return isinstance(tree, Element) and tree.element is None and tree.namespace is None


def _whole(tree: cssselect.parser.Tree) -> str:
    if isinstance(tree, CombinedSelector):
        return _whole(tree.selector) + _right(tree)
    return str(tree.canonical())


def _restrict(tree: cssselect.parser.Tree) -> str:
    if not isinstance(tree, CombinedSelector):
        return str(tree.canonical())
    return _restrict_leftmost(tree.selector) + _right(tree)


def _restrict_leftmost(tree: cssselect.parser.Tree) -> str:
    if isinstance(tree, CombinedSelector):
        return _restrict_leftmost(tree.selector) + _right(tree)
    return str(tree.canonical()) + _IN_SCOPE


def _right(tree: CombinedSelector) -> str:
    combinator = " " if tree.combinator == " " else f" {tree.combinator} "
    part = str(tree.subselector.canonical())
    # `*.x` means `.x`, which is faster. But `*:not(.x)` keeps its star: for a part that begins with a
    # pseudo-class, Lexbor tries the nearest ancestor only.
    return combinator + (part.removeprefix("*") if part[1:2] in (".", "#", "[") else part)


def _has_siblings(tree: object) -> bool:
    return isinstance(tree, CombinedSelector) and (tree.combinator in "+~" or _has_siblings(tree.selector))


def _xpath(group: cssselect.Selector, translator: cssselect.GenericTranslator) -> str:
    result, attribute = _result_type(group)
    path = str(translator.selector_to_xpath(group))
    if result is ResultType.ELEMENT:
        return path
    if path.endswith("::*/*"):
        path = path[:-2]
    if result is ResultType.ATTRIBUTE:
        return f"{path}/attribute::*[name() = {translator.xpath_literal(attribute)}]"
    return "descendant-or-self::text()" if path == "descendant-or-self::*" else f"{path}/text()"


def _lexbor_knows(css: str) -> bool:
    try:
        _probe.css(css or "*")
    except SelectolaxError:
        return False
    return True
