"""What is shown of the words of a browser that does not start."""

import pytest

from shoal.fetch.browser.chromium import explain_words


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("[0:FATAL:zygote_host_impl_linux.cc(128)] No usable sandbox! If you are running", "browser.sandbox"),
        (
            "chrome: error while loading shared libraries: libnss3.so: cannot open",
            "library libnss3.so is missing",
        ),
        ("PermissionError: [Errno 13] Permission denied: '/opt/chromium'", "may not execute it"),
    ],
)
def test_a_cause_that_is_known_comes_with_advice(words: str, advice: str) -> None:
    text = explain_words(f"one line\n{words}\n")
    assert advice in text
    assert text.endswith(f"It said: one line | {words}")


def test_a_cause_that_is_not_known_comes_without_advice() -> None:
    assert explain_words("the display \x1b[31mfailed\n\n") == "It said: the display \\x1b[31mfailed"
    assert explain_words("\n \n") == "It said nothing"


def test_the_words_of_a_browser_are_bounded() -> None:
    assert len(explain_words("\n".join("x" * 10_000 for _ in range(100)))) < 3_000
