"""CPU sets, randomness and the log."""

from __future__ import annotations

import io
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base import log as logs
from tarmac.base.boundedcache import bounded_cache
from tarmac.base.cpuset import CPUSet
from tarmac.base.randomness import SUFFIX_ALPHABET, Randomness


def test_cpu_lists() -> None:
    cpus = CPUSet.parse("0-3,7,5-6")
    assert str(cpus) == "0-3,5-7"
    assert list(cpus - CPUSet.parse("1-5")) == [0, 6, 7]
    assert str(cpus & CPUSet([3, 4, 5])) == "3,5"
    assert CPUSet.parse("") == CPUSet()


@pytest.mark.parametrize("text", ["a", "3-1", "1,", "-1", "1-2-3", "0-99999999999", " 1"])
def test_bad_cpu_lists(text: str) -> None:
    with pytest.raises(ValueError, match="invalid CPU range"):
        CPUSet.parse(text)


@given(st.frozensets(st.integers(0, 300)))
def test_cpu_sets_survive_the_round_trip(cpus: frozenset[int]) -> None:
    assert set(CPUSet.parse(str(CPUSet(cpus)))) == cpus


def test_a_seed_makes_everything_repeatable() -> None:
    def draws(source: Randomness) -> tuple[object, ...]:
        return source.suffix(), source.uuid(), source.uniform(0, 1), source.token(8), source.choice("abc")

    assert draws(Randomness(7)) == draws(Randomness(7))
    assert draws(Randomness()) != draws(Randomness())


def test_names_and_identifiers_have_their_form() -> None:
    source = Randomness()
    assert len(source.suffix()) == 5
    assert set(source.suffix(200)) <= set(SUFFIX_ALPHABET)
    assert uuid.UUID(source.uuid()).version == 4


@pytest.fixture
def stream() -> object:
    yield (captured := io.StringIO())
    captured.close()
    logs.configure()


def test_json_lines(stream: io.StringIO) -> None:
    logs.configure(as_json=True, stream=stream)
    logs.log("store").info("Compacted", revision=7)
    logs.log("store").debug("Not written")
    line = json.loads(stream.getvalue())
    assert (line["logger"], line["msg"], line["revision"], line["level"]) == ("store", "Compacted", 7, "info")


def test_plain_lines(stream: io.StringIO) -> None:
    logs.configure(level="debug", stream=stream)
    logs.log("store").debug("Compacted", note="two words", revision=7)
    assert stream.getvalue().endswith('DEBUG   store: Compacted note="two words" revision=7\n')


def test_results_are_remembered_but_not_those_of_long_texts() -> None:
    asked: list[str] = []

    @bounded_cache(2)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    long = "x" * 1000
    assert [length("a"), length("a"), length(long), length(long)] == [1, 1, 1000, 1000]
    assert asked == ["a", long, long]
