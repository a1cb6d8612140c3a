"""What a reader sees of a page."""

from selectolax.lexbor import LexborHTMLParser

from shoal.spider.html.visible_text import visible_text


def test_scripts_styles_and_comments_are_not_seen_and_elements_are_apart() -> None:
    tree = LexborHTMLParser(
        "<head><title>t</title></head><body><script>var x = 1</script><style>p {}</style><p>one<b>two</b></p>"
        "<noscript>turn it on</noscript><!-- note --><script></script>three</body>"
    )
    before = tree.html
    assert visible_text(tree).split() == ["one", "two", "three"]
    assert tree.html == before


def test_a_page_without_a_body_has_no_text() -> None:
    assert visible_text(LexborHTMLParser("")) == ""
    assert visible_text(LexborHTMLParser("<frameset><frame></frameset>")).strip() == ""
