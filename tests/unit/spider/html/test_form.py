"""A filled form is the request that a browser would send."""

from urllib.parse import parse_qsl, urlsplit

import pytest

import shoal

LOGIN = """
<form id=search action=/find><input name=q></form>
<form id=login method=post action="../session?x=1">
  <input type=hidden name=token value="a&amp;b">
  <input name=user value=you> <input name=password type=password>
  <input type=checkbox name=keep value=yes checked> <input type=checkbox name=news>
  <input type=radio name=plan value=free checked> <input type=radio name=plan value=paid>
  <select name=lang><option value=en>English<option value=de>Deutsch</select>
  <select name=tags multiple><option selected>a<option selected>b<option>c</select>
  <textarea name=note>
one
two</textarea>
  <input name=off value=1 disabled>
  <fieldset disabled><legend><input name=legend value=1></legend><input name=inner value=1></fieldset>
  <button name=go value=in>Log in</button> <button name=go value=up formaction=/signup>Sign up</button>
  <input type=image name=pic> <input type=reset name=reset value=r> <button type=button name=js>x</button>
</form>
<input name=outside form=login value=1>
"""


def page(html: str, **given: object) -> shoal.Page:
    return shoal.Page.of(html, url="https://shop.example/user/login", **given)  # type: ignore[arg-type]


def sent(request: shoal.Request) -> list[tuple[str, str]]:
    return parse_qsl(request.body.decode(), keep_blank_values=True)


UNCHANGED = [
    ("token", "a&b"),
    ("user", "you"),
    ("password", ""),
    ("keep", "yes"),
    ("plan", "free"),
    ("lang", "en"),
    ("tags", "a"),
    ("tags", "b"),
    ("note", "one\r\ntwo"),
    ("legend", "1"),
    ("go", "in"),
    ("outside", "1"),
]


def test_an_unchanged_form_sends_what_a_browser_sends() -> None:
    request = page(LOGIN).form("#login").fill()
    assert request.url == "https://shop.example/session?x=1"
    assert request.method == "POST"
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert sent(request) == UNCHANGED


@pytest.mark.parametrize(
    ("filled", "changed"),
    [
        ({"user": "me", "password": "p&w"}, {"user": ["me"], "password": ["p&w"]}),
        ({"keep": False, "news": True}, {"keep": [], "news": ["on"]}),
        ({"plan": "paid"}, {"plan": ["paid"]}),
        ({"lang": "Deutsch"}, {"lang": ["de"]}),
        ({"tags": ["c"]}, {"tags": ["c"]}),
        ({"user": None}, {"user": []}),
        ({"off": "2"}, {"off": ["2"]}),
        ({"click": "up"}, {"go": ["up"]}),
        ({"click": "Sign up"}, {"go": ["up"]}),
        ({"click": "pic"}, {"go": [], "pic.x": ["0"], "pic.y": ["0"]}),
        ({"click": False}, {"go": []}),
    ],
)
def test_a_value_replaces_that_of_its_field_and_leaves_the_others(
    filled: dict[str, object], changed: dict[str, list[str]]
) -> None:
    expected: dict[str, list[str]] = {}
    for name, value in UNCHANGED:
        expected.setdefault(name, []).append(value)
    got: dict[str, list[str]] = {}
    for name, value in sent(page(LOGIN).form("#login").fill(**filled)):  # type: ignore[arg-type]
        got.setdefault(name, []).append(value)
    assert got == {name: values for name, values in {**expected, **changed}.items() if values}


def test_the_button_that_is_pressed_may_send_the_form_elsewhere() -> None:
    assert page(LOGIN).form("#login").fill(click="up").url == "https://shop.example/signup"


def test_a_get_form_replaces_the_query_of_its_action() -> None:
    html = "<form action='/find?old=1#x'><input name=q></form>"
    request = page(html).form().fill(q="a b*~ü")
    assert request.method == "GET"
    assert request.url == "https://shop.example/find?q=a+b*%7E%C3%BC"


def test_a_form_without_action_is_sent_to_its_page_even_if_that_has_a_base() -> None:
    html = "<base href='https://other.example/'><form method=post><input name=a></form>"
    assert page(html).form().fill(a=1).url == "https://shop.example/user/login"


def test_a_multipart_form_is_the_same_each_time_and_has_empty_uploads() -> None:
    html = "<form method=post enctype=multipart/form-data><input name='a\"b'><input type=file name=f></form>"
    request = page(html).form().fill({'a"b': "x\ny"})
    assert request == page(html).form().fill({'a"b': "x\ny"})
    kind, _, boundary = request.headers["Content-Type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    assert (
        request.body
        == (
            f'--{boundary}\r\nContent-Disposition: form-data; name="a%22b"\r\n\r\nx\r\ny\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="f"; filename=""\r\n'
            f"Content-Type: application/octet-stream\r\n\r\n\r\n--{boundary}--\r\n"
        ).encode()
    )


def test_a_form_is_sent_in_the_encoding_of_its_page_or_in_the_one_that_it_accepts() -> None:
    latin = page("<form method=post><input name=a></form>", content_type="text/html; charset=iso-8859-1")
    assert latin.form().fill(a="é€日").body == b"a=%E9%80%26%2326085%3B"
    utf = page(
        "<form method=post accept-charset=utf-8><input name=a><input type=hidden name=_charset_></form>",
        content_type="text/html; charset=iso-8859-1",
    )
    assert utf.form().fill(a="é").body == b"a=%C3%A9&_charset_=UTF-8"


def test_options_of_the_request_and_fields_that_scripts_add_are_given_to_the_form() -> None:
    form = page(LOGIN).form("#login", extra={"js": 1}, route="home", data={"a": 1}, priority=2, again=True)
    request = form.fill()
    assert ("js", "1") in sent(request)
    assert (request.route, request.data, request.priority, request.again) == ("home", {"a": 1}, 2, True)


@pytest.mark.parametrize("selector", ["#login", "[name=password]", "#login select", "body"])
def test_a_selector_finds_the_form_itself_the_one_around_it_or_the_first_inside(selector: str) -> None:
    expected = "/find" if selector == "body" else "/session"
    assert urlsplit(page(LOGIN).form(selector).action).path == expected


def test_the_values_of_a_form_can_be_read() -> None:
    assert page(LOGIN).form("#login").values["token"] == ["a&b"]
    assert page(LOGIN).form("#login").values["tags"] == ["a", "b"]


@pytest.mark.parametrize(
    ("selector", "filled", "message"),
    [
        ("#login", {"usr": "x"}, "no field 'usr'; it has .*'user'"),
        ("#login", {"go": "in"}, "press it with click="),
        ("#login", {"plan": "gold"}, "no choice 'gold'; it has 'free', 'paid'"),
        ("#login", {"lang": "fr"}, "no choice 'fr'"),
        ("#login", {"click": "no"}, "no submit button 'no'"),
        ("#missing", {}, "no form matches '#missing'"),
        (None, {}, "2 forms: choose one .*'#search', '#login'"),
    ],
)
def test_what_a_form_does_not_have_is_an_error_that_lists_what_it_has(
    selector: str | None, filled: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        page(LOGIN).form(selector).fill(**filled)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("html", "message"),
    [
        ("<p>no", "the page has no form"),
        ("<form method=dialog><input name=f>", "dialog"),
        ("<form action=mailto:a@b.example method=post><input name=f>", "cannot be sent to"),
        ("<form method=post><input type=file name=f>", "file upload"),
    ],
)
def test_forms_that_cannot_be_sent_are_refused(html: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        page(html).form().fill(f="x")
