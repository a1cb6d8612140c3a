"""The text of a page that a reader sees: what two pages are compared by."""

from selectolax.lexbor import LexborHTMLParser

from shoal.model.limits import MIB

_TEXT = 1 * MIB  # characters
_UNSEEN = ("script", "style", "noscript")
_AT_MOST = 100  # of each that are taken out; honest pages have fewer


def visible_text(tree: LexborHTMLParser) -> str:
    """Give the text of the body, elements separated by spaces, without scripts and styles."""
    if tree.body is None:
        return ""
    text = tree.body.text(separator=" ")[:_TEXT]
    # Cutting them out of the text leaves the tree, which belongs to the spider, as it is.
    for name in _UNSEEN:
        for node in tree.tags(name)[:_AT_MOST]:
            unseen = node.text()
            if unseen:
                text = text.replace(unseen, " ", 1)
    return text
