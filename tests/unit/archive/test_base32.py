import base64

from hypothesis import given
from hypothesis import strategies as st

from shoal.archive.base32 import base32


@given(st.binary(min_size=20, max_size=20))
def test_the_result_equals_that_of_the_standard_library(digest: bytes) -> None:
    assert base32(digest) == base64.b32encode(digest)
