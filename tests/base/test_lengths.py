"""Every parser of a request's text refuses a text that is longer than any legitimate one, before it parses it.

Work is counted in CPU time against a bound two orders of magnitude above the check of a length.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tarmac.base import names
from tarmac.base.clock import parse_rfc3339
from tarmac.base.cpuset import CPUSet
from tarmac.base.duration import parse_duration
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity
from tarmac.base.selectors import FieldSelector, LabelMatcher

LENGTH = 2_000_000
ALLOWED = 0.010  # seconds; without a limit each of these takes 50 to 1,200 ms

HOSTILE: dict[str, tuple[Callable[[str], object], str]] = {
    "values of a label": (LabelMatcher.parse, f"a in ({'b,' * (LENGTH // 2)}b)"),
    "terms of a field selector": (FieldSelector.parse, "a=b," * (LENGTH // 4)),
    "escapes in a field selector": (FieldSelector.parse, "a=" + "\\," * (LENGTH // 2)),
    "digits of a quantity": (Quantity.parse, "1" * LENGTH),
    "parts of a duration": (parse_duration, "1h" * (LENGTH // 2)),
    "numbers of CPUs": (CPUSet.parse, "1," * (LENGTH // 2) + "1"),
    "ranges of CPUs that overlap": (CPUSet.parse, "0-65535," * 1000 + "1"),
    "a fraction of a second": (parse_rfc3339, f"2026-11-15T12:00:00.{'1' * LENGTH}Z"),
}


@pytest.mark.parametrize(("parse", "text"), HOSTILE.values(), ids=list(HOSTILE))
def test_a_long_text_is_refused_before_it_is_parsed(parse: Callable[[str], object], text: str) -> None:
    began = time.thread_time()
    with pytest.raises(ValueError) as refusal:
        parse(text)
    assert time.thread_time() - began < ALLOWED
    assert len(str(refusal.value)) < 1000, "the message contains no long text"


@pytest.mark.parametrize("separator", [".", ":", "1.", "0"])
def test_a_long_address_or_range_is_refused_before_it_is_parsed(separator: str) -> None:
    text = separator * (LENGTH // len(separator))
    began = time.thread_time()
    assert names.cidr(text)
    with pytest.raises(ValueError, match="longer than 256 characters"):
        names.plain_address(text)
    assert time.thread_time() - began < ALLOWED


def test_a_key_of_a_million_slashes_is_split_twice() -> None:
    began = time.thread_time()
    assert "a valid label key" in names.label_key("/" * LENGTH)[0]
    assert time.thread_time() - began < ALLOWED


def test_a_path_with_a_long_key_is_cut_in_every_cause() -> None:
    with FieldErrors() as errors:
        errors.invalid(f"spec.max[{'a' * LENGTH}]", "1", "is not a resource")
    (cause,) = errors
    assert cause.path.startswith("spec.max[aaa")
    assert len(cause.path) < 20_000


def test_lengths_that_requests_can_have_are_parsed() -> None:
    """A request line with its headers has at most 64 KiB, so no query reaches the limit of selectors."""
    assert LabelMatcher.parse(f"a in ({'b,' * 32_000}b)").matches({"a": "b"})
    assert FieldSelector.parse("metadata.name=" + "b" * 60_000).exact("metadata.name") == "b" * 60_000
    assert len(CPUSet.parse(",".join(map(str, range(0, 20_000, 2))))) == 10_000
    assert names.ip_address("0" * 200 + "10.1.2.3") == []
