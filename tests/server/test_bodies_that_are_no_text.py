"""A node's report with bytes that are no UTF-8 is a bad request."""

from __future__ import annotations

import pytest

from tarmac.api.status import BadRequest
from tarmac.http.messages import Request
from tarmac.server.nodes.runningreports import decoded

BODIES = [b'{"a":"\xff"}', b'{"a\xff":1}', b'"\xed\xa0\x80"', b'["\xc0\xaf"]', b"\xff\xfe", b'"\\ud800"']


@pytest.mark.parametrize("body", BODIES)
def test_a_report_that_is_no_utf_8_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest, match="the body cannot be read"):
        decoded(Request("POST", "/tarmac/v1/nodes/n/running", body=body), object)
