"""Declared encodings in order of precedence, wrong labels, damage; decoding never raises."""

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpora.packages import NEWSPAPER, TEXT_ENCODING, WEBENCODINGS, files

from shoal.spider.text.decoding import CharsetSource, decode, prescan
from shoal.spider.text.encodings import decode_with, encoding_for_label

BOM, HEADER, META = CharsetSource.BOM, CharsetSource.HEADER, CharsetSource.META
DETECTED, DEFAULT = CharsetSource.DETECTED, CharsetSource.DEFAULT

UTF_8 = "text/html; charset=utf-8"
RUSSIAN = "Съешь же ещё этих мягких французских булок да выпей чаю. " * 5
FRENCH = "Voix ambiguë d’un cœur qui, au zéphyr, préfère les jattes de kiwis à la crème brûlée. " * 5


def found(body: bytes, content_type: str = "") -> tuple[str, CharsetSource]:
    decoded = decode(body, content_type)
    return decoded.encoding, decoded.source


def test_a_byte_order_mark_beats_the_header() -> None:
    assert found("\ufeffé".encode(), "text/html; charset=latin1") == ("utf-8", BOM)
    assert decode("\ufeffé".encode(), "text/html; charset=latin1").text == "é"


@pytest.mark.parametrize(("codec", "name"), [("utf-16-le", "utf-16le"), ("utf-16-be", "utf-16be")])
def test_a_byte_order_mark_is_enough_for_utf_16(codec: str, name: str) -> None:
    decoded = decode("\ufeff<p>žluťoučký</p>".encode(codec), UTF_8)
    assert (decoded.text, decoded.encoding, decoded.source) == ("<p>žluťoučký</p>", name, BOM)


def test_only_the_first_of_three_marks_is_taken_off() -> None:
    assert decode(b"\xef\xbb\xbf" * 3 + b"x").text == "\ufeff\ufeffx"


def test_the_header_beats_the_page() -> None:
    body = b"<meta charset=windows-1252>" + RUSSIAN.encode("cp1251")
    assert found(body, "text/html; charset=windows-1251") == ("windows-1251", HEADER)
    assert RUSSIAN in decode(body, "text/html; charset=windows-1251").text


@pytest.mark.parametrize(
    "content_type",
    [
        "text/html;charset=UTF-8",
        'text/html; charset="utf-8"',
        "text/html; CHARSET = 'Utf8' ",
        "a; b=c; charset=utf8;d",
    ],
)
def test_a_header_may_be_written_in_many_ways(content_type: str) -> None:
    assert found(b"x", content_type) == ("utf-8", HEADER)


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="koi8-r">', "koi8-r"),
        ("<META  CharSet = koi8-r />", "koi8-r"),
        ("<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>", "koi8-r"),
        ("<meta content='text/html; charset=koi8-r' http-equiv='content-type'>", "koi8-r"),
        ('<?xml version="1.0" encoding="koi8-r"?><html>', "koi8-r"),
        ("<title>a > b</title><meta charset=koi8-r>", "koi8-r"),
        ("<!-- <meta charset=utf-8> --><meta charset=koi8-r>", "koi8-r"),
        ("<!--><meta charset=koi8-r>", "koi8-r"),
        ("<a title='<meta charset=utf-8>'><meta charset=koi8-r>", "koi8-r"),
        ("<meta charset=x-foo><meta charset=koi8-r>", "koi8-r"),
        ("<meta charset='utf-7'><meta charset=koi8-r>", "koi8-r"),
        ("<meta name=a content='text/html; charset=utf-8'><meta charset=koi8-r>", "koi8-r"),
        ("<meta http-equiv=content-type content='a;charset=koi8-r'><meta charset=utf-8>", "koi8-r"),
        ("<meta charset=utf-16>", "utf-8"),
        ("<meta charset=x-user-defined>", "windows-1252"),
        ("<metadata charset=koi8-r>", None),
        ("<!-- <meta charset=koi8-r>", None),
        ("<p class='<meta charset=koi8-r>", None),
        ("</ <meta charset=koi8-r>", None),
        ("charset=koi8-r", None),
    ],
)
def test_a_page_declares_its_encoding_as_the_standard_reads_it(head: str, encoding: str | None) -> None:
    assert prescan(head.encode()) == encoding


def test_an_encoding_declaration_counts_only_at_the_start() -> None:
    declaration = b"<meta charset=koi8-r>"
    assert found(b"<p>" + b" " * 4_000 + declaration + RUSSIAN.encode("koi8-r")) == ("koi8-r", META)
    assert found(b"<p>" + b" " * 4_096 + declaration + FRENCH.encode("cp1252")) == ("windows-1252", DETECTED)


@pytest.mark.parametrize(
    "label", ["utf-7", "x-foo", "rot13", "idna", "hz-gb-2312", "iso-2022-kr", "utf-32", "", "\0"]
)
def test_a_label_that_browsers_do_not_know_is_ignored(label: str) -> None:
    assert found("é".encode(), f"text/html; charset={label}") == ("utf-8", DETECTED)
    assert decode(b"+ADw-script+AD4-", f"text/html; charset={label}").text == "+ADw-script+AD4-"


def test_labels_mean_what_browsers_made_them_mean() -> None:
    assert decode(b"\x93\x81", "a; charset=latin1").text == "“\x81"
    assert decode("镕".encode("gbk"), "a; charset=gb2312").text == "镕"
    assert decode("똠".encode("cp949"), "a; charset=ks_c_5601-1987").text == "똠"
    assert decode("①".encode("cp932"), "a; charset=shift_jis").text == "①"


def test_every_label_of_the_standard_is_known() -> None:
    [(_, source)] = files(WEBENCODINGS, "webencodings/labels.py")
    table = next(node.value for node in ast.parse(source).body if isinstance(node, ast.Assign))
    labels: dict[str, str] = ast.literal_eval(table)
    assert len(labels) > 200
    expected = {label: name if name != "replacement" else None for label, name in labels.items()}
    assert {label: encoding_for_label(f" {label.upper()}\n") for label in labels} == expected
    readable = {name for name in expected.values() if name and not name.startswith("utf-16")}
    assert {name: decode_with(b"<", name) for name in readable} == dict.fromkeys(readable, ("<", 0))


def test_every_single_byte_table_is_the_standards() -> None:
    [(_, source)] = files(TEXT_ENCODING, "lib/encoding-indexes.js")
    indexes = json.loads(source.partition(b'"encoding-indexes"] =')[2].partition(b"};")[0] + b"}")
    tables = {name: index for name, index in indexes.items() if len(index) == 128}
    assert len(tables) == 27
    for name, index in tables.items():
        expected = "".join(chr(code) if code else "\ufffd" for code in index)
        assert decode_with(bytes(range(128, 256)), name) == (expected, expected.count("\ufffd")), name


def test_a_single_byte_label_on_utf_8_is_wrong() -> None:
    body = b"<meta charset=iso-8859-1>" + FRENCH.encode()
    assert found(body, "text/html; charset=iso-8859-1") == ("utf-8", DETECTED)
    assert FRENCH in decode(body, "text/html; charset=iso-8859-1").text


def test_a_few_broken_bytes_are_replaced_and_counted() -> None:
    body = b"<meta charset=utf-16>caf\xe9, na\xefve"
    decoded = decode(body, UTF_8)
    assert (decoded.encoding, decoded.source, decoded.replaced) == ("utf-8", HEADER, 2)
    assert decoded.text.endswith("caf\ufffd, na\ufffdve")


def test_damage_in_a_long_text_does_not_change_its_encoding() -> None:
    decoded = decode((RUSSIAN * 20).encode() + b"\xff" * 300, UTF_8)
    assert (decoded.encoding, decoded.replaced) == ("utf-8", 300)


def test_replacement_characters_of_the_page_itself_are_not_counted() -> None:
    assert decode("\ufffd\ufffd".encode() + b"\xff", UTF_8).replaced == 1


def test_a_header_that_does_not_fit_the_body_is_overruled_by_the_page() -> None:
    body = b"<meta charset=windows-1251>" + RUSSIAN.encode("cp1251")
    assert found(body, UTF_8) == ("windows-1251", META)


@pytest.mark.parametrize(
    ("text", "codec", "encoding"),
    [(RUSSIAN, "koi8-r", "koi8-r"), (RUSSIAN, "cp1251", "windows-1251"), (FRENCH, "cp1252", "windows-1252")],
)
def test_two_wrong_labels_are_overruled_by_the_guess(text: str, codec: str, encoding: str) -> None:
    decoded = decode(b"<meta charset=utf-8>" + text.encode(codec), UTF_8)
    assert (decoded.encoding, decoded.source, decoded.replaced) == (encoding, DETECTED, 0)
    assert text in decoded.text


def test_bytes_that_fit_no_encoding_keep_the_declared_one() -> None:
    decoded = decode(bytes(range(0x80, 0xC0)) * 20, UTF_8)
    assert (decoded.encoding, decoded.source) == ("utf-8", HEADER)
    assert decoded.replaced == 64 * 20


def test_utf_16_without_zeros_is_a_wrong_label() -> None:
    assert found(b"<p>plain</p>", "text/html; charset=utf-16le") == ("utf-8", DETECTED)
    assert found("<p>é</p>".encode(), "text/html; charset=utf-16le") == ("utf-8", DETECTED)


def test_utf_16_needs_neither_mark_nor_label() -> None:
    assert decode("<p>é</p>".encode("utf-16-be")).text == "<p>é</p>"


def test_plain_ascii_is_utf_8_unless_it_shifts_to_japanese() -> None:
    assert found(b"plain") == ("utf-8", DEFAULT)
    assert decode("日本".encode("iso2022_jp")).text == "日本"


def test_bytes_without_any_clue_are_windows_1252() -> None:
    assert found(b"\x81\x82\x83\x84\x85") == ("windows-1252", DEFAULT)


@pytest.mark.parametrize(
    ("article", "codecs"),
    [
        ("arabic_article", ["cp1256"]),
        ("chinese_article", ["gbk"]),
        ("chinese_article_001", ["gbk"]),
        ("japanese_article", ["cp932", "euc_jp", "iso2022_jp"]),
        ("japanese_article2", ["cp932", "euc_jp"]),
        ("latvian_article", ["cp1257"]),
        ("spanish_article", ["cp1252"]),
        ("thai_article", ["cp874"]),
        ("yna_co_kr", ["cp949"]),
    ],
)
def test_real_articles_without_a_label_come_out_right(article: str, codecs: list[str]) -> None:
    [(_, content)] = files(NEWSPAPER, f"tests/data/txt/{article}.txt")
    for codec in codecs:
        body = content.decode().encode(codec, "ignore")
        assert decode(body).text == body.decode(codec), codec


@given(
    st.binary(max_size=200),
    st.sampled_from(["", UTF_8, "a; charset=utf-16", "a; charset=gb2312", "charset=x;;="]),
)
def test_nothing_raises(body: bytes, content_type: str) -> None:
    assert isinstance(decode(body, content_type).text.encode(), bytes)


@given(st.binary(max_size=300))
def test_the_prescan_never_raises(junk: bytes) -> None:
    prescan(b"<meta " + junk + b"charset=utf-8>")
