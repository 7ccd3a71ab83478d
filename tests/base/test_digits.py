"""Whole numbers in foreign text of any length: a number within bounds or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.digits import port_number, whole_number


@given(st.integers(0, 10**30), st.integers(0, 10**30))
def test_a_number_is_read_up_to_the_bound(number: int, most: int) -> None:
    assert whole_number(str(number), most) == (number if number <= most else None)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_0", " 1", "1.0", "٣", "²", "0x1", "9" * 5000])
def test_everything_else_is_none(text: str) -> None:
    assert whole_number(text, 100) is None


def test_leading_zeros_do_not_count() -> None:
    assert whole_number("0" * 5000 + "7", 10) == 7
    assert whole_number("0" * 5000, 10) == 0


@pytest.mark.parametrize(
    ("text", "port"), [("1", 1), ("65535", 65535), ("0", None), ("65536", None), ("9" * 9999, None)]
)
def test_ports(text: str, port: int | None) -> None:
    assert port_number(text) == port
