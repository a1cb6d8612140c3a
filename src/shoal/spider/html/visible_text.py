"""The text of a page that a reader sees, for near-duplicate detection."""

from selectolax.lexbor import LexborHTMLParser

from shoal.model.limits import MIB

_MAX_CHARS = 1 * MIB
_INVISIBLE = ("script", "style", "noscript")
_MAX_REMOVED = 100  # elements of each tag that are removed; ordinary pages have fewer


def visible_text(tree: LexborHTMLParser) -> str:
    """Return the text of the body, elements separated by spaces, without scripts and styles."""
    if tree.body is None:
        return ""
    text = tree.body.text(separator=" ")[:_MAX_CHARS]
    # Removed from the text and not from the tree: the tree belongs to the spider.
    for name in _INVISIBLE:
        for node in tree.tags(name)[:_MAX_REMOVED]:
            invisible = node.text()
            if invisible:
                text = text.replace(invisible, " ", 1)
    return text
