"""Any bytes in any pieces: the parser returns requests or one error."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.status import ApiError
from tarmac.http.limits import ListenerLimits
from tarmac.http.messages import Request
from tarmac.http.reading import RequestReader

NAMES = st.sampled_from(["Accept", "User-Agent", "X-Long", "Impersonate-Group", "accept"])
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
PATHS = st.text(st.sampled_from("abc/%20?=&"), max_size=20).map(lambda text: "/" + text)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(["GET", "GET", "GET", "POST", "PUT", "DELETE", "HEAD"]))
    headers = "".join(f"{name}: {value}\r\n" for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=3)))
    head = f"{method} {draw(PATHS)} HTTP/1.1\r\nHost: x\r\n{headers}"
    body = draw(st.binary(max_size=30))
    if method not in ("POST", "PUT"):
        return f"{head}\r\n".encode()
    if draw(st.booleans()):
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk + b"0\r\n\r\n"


def read(pieces: list[bytes]) -> list[object]:
    reader = RequestReader(ListenerLimits(), lambda: 0.0)
    for piece in pieces:
        reader.feed(piece)
    return [_shown(item) for item in reader.ready]


def _shown(item: Request | ApiError) -> object:
    if isinstance(item, ApiError):
        return item.http_code
    return (item.method, item.path, item.query, dict(item.headers), item.body)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *[place % (len(data) + 1) for place in places]})
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.lists(requests(), min_size=1, max_size=5), st.lists(st.integers(min_value=0), max_size=8))
def test_where_the_bytes_are_cut_makes_no_difference(sent: list[bytes], places: list[int]) -> None:
    one_by_one = [read([each])[0] for each in sent]
    assert read(sent) == one_by_one
    assert read(cut(b"".join(sent), places)) == one_by_one
    assert read([sent[0], *sent]) == [one_by_one[0], *one_by_one]


@given(st.lists(st.one_of(st.binary(max_size=200), requests()), max_size=4))
def test_no_input_breaks_the_reader(pieces: list[bytes]) -> None:
    found = read(pieces)
    refusals = [index for index, item in enumerate(found) if isinstance(item, int)]
    assert refusals in ([], [len(found) - 1])
