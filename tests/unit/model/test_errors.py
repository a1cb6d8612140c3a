import struct

import msgspec
import pytest

from shoal.model.errors import DataFault, Rejected, unexpected


@pytest.mark.parametrize(
    "error",
    [
        Rejected("no"),
        DataFault("WRONGTYPE"),
        msgspec.DecodeError("junk"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "junk"),
        struct.error("junk"),
    ],
)
def test_damaged_data_is_logged_in_one_line(error: Exception) -> None:
    assert unexpected(error) is None


def test_a_bug_is_logged_with_its_traceback() -> None:
    assert unexpected(bug := ZeroDivisionError()) is bug
