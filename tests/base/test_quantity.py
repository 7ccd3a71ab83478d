"""Quantities parse, print, compare and add as Kubernetes' do."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.quantity import Format, Quantity

CANONICAL = [
    ("0", "0"),
    ("1", "1"),
    ("1.5", "1500m"),
    ("0.5", "500m"),
    ("1000", "1k"),
    ("100000", "100k"),
    ("1500m", "1500m"),
    ("1.234", "1.234"),
    ("1.5Gi", "1536Mi"),
    ("1024Ki", "1Mi"),
    ("0.5Ki", "512"),
    ("0.0001Mi", "104857600u"),
    ("1e3", "1e3"),
    ("1E3", "1E3"),
    ("12e5", "1200e3"),
    ("2.5e-3", "2500e-6"),
    ("+5", "+5"),
    ("0.1n", "1n"),
    ("-1.5", "-1500m"),
    ("m", "0"),
    ("256m", "256m"),
]


@pytest.mark.parametrize(("text", "printed"), CANONICAL)
def test_prints_in_canonical_form(text: str, printed: str) -> None:
    assert str(Quantity.parse(text)) == printed


def test_binary_values_are_capped_at_the_largest_int64() -> None:
    assert str(Quantity.parse("20Ei")) == "9223372036854775807"


@pytest.mark.parametrize("text", ["", "aoeu", "1.1.M", "1+1.0M", "0.1am", "1 2", "0x10"])
def test_refuses_what_is_not_a_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["1mm", "0.1mi", "1e", "1i", "1e1001", "1e99999999999"])
def test_refuses_unknown_suffixes_and_absurd_exponents(text: str) -> None:
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        Quantity.parse(text)


def test_json_numbers_are_quantities_and_booleans_are_not() -> None:
    assert str(Quantity.parse(0.1)) == "100m"
    assert Quantity.parse(3) == Quantity.parse("3")
    with pytest.raises(ValueError):
        Quantity.parse(True)


@pytest.mark.parametrize(
    ("text", "value", "milli"), [("1500m", 2, 1500), ("-1500m", -2, -1500), ("1u", 1, 1), ("3", 3, 3000)]
)
def test_rounds_away_from_zero(text: str, value: int, milli: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.value(), quantity.milli()) == (value, milli)


def test_a_sum_is_written_in_the_family_of_its_first_nonzero_term() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("512Mi")) == "1536Mi"
    assert str(Quantity.parse("0") + Quantity.parse("2Gi")) == "2Gi"
    assert str(Quantity.parse("250m") * 4) == "1"


def test_memory_in_milli_bytes_is_not_whole() -> None:
    assert not Quantity.parse("256m").is_integer()
    assert Quantity.parse("256Mi").is_integer()


nanos = st.integers(min_value=-(10**24), max_value=10**24)
quantities = st.builds(Quantity, nanos, st.sampled_from(Format))


@given(quantities)
def test_printed_quantities_parse_to_the_same_amount(quantity: Quantity) -> None:
    again = Quantity.parse(str(quantity))
    # Binary amounts beyond int64 are capped when read, so only those may differ.
    assert again == quantity or (quantity.format is Format.BINARY_SI and abs(quantity.nanos) > (2**63 - 1) * 10**9)
    # A binary amount without a suffix is read as a decimal one; from then on the text is stable.
    assert str(Quantity.parse(str(again))) == str(again)


@given(quantities, quantities, quantities)
def test_arithmetic_is_exact(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert (a + b) - b == a
    assert a + (b + c) == (a + b) + c
    assert (a < b) == (Fraction(a.nanos, 10**9) < Fraction(b.nanos, 10**9))


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "e3", "e-3"]),
)
def test_parsing_never_loses_and_rounds_up_below_nano(whole: int, fraction: int, suffix: str) -> None:
    quantity = Quantity.parse(f"{whole}.{fraction:012d}{suffix}")
    factor = {"": 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": 1000, "M": 10**6}
    factor |= {"Ki": 1024, "Mi": 1024**2, "e3": 1000, "e-3": Fraction(1, 1000)}
    exact = (whole + Fraction(fraction, 10 ** max(12, len(str(fraction))))) * factor[suffix]
    assert 0 <= Fraction(quantity.nanos, 10**9) - exact < Fraction(1, 10**9)


@pytest.mark.parametrize(("text", "printed"), [("7000e989", "700e990"), ("1" + "0" * 1000, "1" + "0" * 982 + "E")])
def test_a_number_of_a_thousand_digits_prints_in_canonical_form(text: str, printed: str) -> None:
    assert str(Quantity.parse(text)) == printed


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        printed = str(Quantity.parse(text))
    except ValueError:
        return
    assert Quantity.parse(printed) == Quantity.parse(text)


@pytest.mark.parametrize(
    "text", ["0" * 1_000_000 + "x", "9" * 1_000_000 + "x", "1." + "0" * 1_000_000 + "x", "9" * 5000]
)
def test_a_long_text_costs_no_more_than_its_length(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="longer than 1024 characters"):
        Quantity.parse(text)
    assert time.process_time() - began < 1
