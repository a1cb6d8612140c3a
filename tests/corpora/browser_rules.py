"""Why libxml2 and a browser read the same markup differently: one rule at a time.

Each rule changes libxml2's tree in one respect to what the HTML standard says. If a query's answer on the
changed tree is the browser's, that rule is the reason.
"""

import re
from collections.abc import Callable
from html.parser import HTMLParser

from lxml import etree

BROKEN = "tags that overlap, or are never closed"

_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
_END_OPTIONAL = frozenset(
    [
        "li",
        "dt",
        "dd",
        "p",
        "option",
        "tr",
        "td",
        "th",
        "thead",
        "tbody",
        "tfoot",
        "colgroup",
        "html",
        "head",
        "body",
    ]
)


def drop_first_line_break(root: etree._Element) -> None:
    for element in root.iter("pre", "textarea", "listing"):
        if element.text:
            element.text = re.sub(r"^\r?\n", "", element.text) or None


def add_tbody(root: etree._Element) -> None:
    for table in root.iter("table"):
        body = None
        for child in list(table):
            if child.tag == "tr":
                if body is None:
                    body = etree.Element("tbody")
                    child.addprevious(body)
                body.append(child)
            elif isinstance(child.tag, str):
                body = None


def empty_wbr(root: etree._Element) -> None:
    for element in list(root.iter("wbr")):
        last = element
        for child in list(element):
            last.addnext(child)
            last = child
        # `addnext` takes tails along, so texts stay behind their elements; only the first is left to move.
        element.tail, element.text = (element.text or "") + (element.tail or ""), None


RULES: dict[str, Callable[[etree._Element], None]] = {
    "the first line break in <pre> is not part of it": drop_first_line_break,
    "rows right below <table> get a <tbody>": add_tbody,
    "<wbr> is always empty": empty_wbr,
}


def is_broken(text: str) -> bool:
    """Return whether tags are nested incorrectly, by a parser that repairs nothing."""
    nesting = _Nesting()
    nesting.feed(text)
    nesting.close()
    return nesting.broken or any(tag not in _END_OPTIONAL for tag in nesting.open)


class _Nesting(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.broken = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        # A slash closes nothing in HTML: <div/> and <a/> stay open.
        self.broken |= tag not in _VOID

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] != tag and self.open[-1] in _END_OPTIONAL:
            self.open.pop()
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.broken = True
