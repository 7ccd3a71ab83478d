"""The list of specs and the page about failing ones agree, and a log is parsed as the suite writes it."""

from __future__ import annotations

import re

from tests.conformance.running import failure_in
from tests.conformance.specs import PAGE, documented_failures, focus, listed, serial

_PASSED = "Ran 1 of 7355 Specs in 3.1 seconds\nSUCCESS! -- 1 Passed | 0 Failed\n"
_FAILED = (
    "  [FAILED] in [It] - k8s.io/a.go:1 @ 11/19/26 15:38:07.773\n• [FAILED] [9.264 seconds]\n"
    "[sig-a] A [It] b\n\n  [FAILED] group not found\n  Expected\n      nil\n  In [It] at: k8s.io/a.go:1\n"
    "Ran 1 of 7355 Specs in 3.1 seconds\n"
)


def test_every_failing_spec_is_listed_with_a_cause_and_counted() -> None:
    specs, failing = listed(), documented_failures()
    assert len(specs) == len(set(specs)) == 219
    assert failing.keys() <= set(specs)
    assert all(failing.values())
    passing = len(specs) - len(failing)
    assert f"passes {passing} of these {len(specs)}" in PAGE.read_text()
    assert passing >= 171


def test_a_spec_is_selected_by_its_name_alone() -> None:
    (spec,) = [each for each in listed() if "should allow expressions to refer variables." in each]
    assert re.search(focus(spec), f"k8s {spec}")
    assert not [each for each in listed() if each != spec and re.search(focus(spec), each)]


def test_disruptive_specs_run_alone() -> None:
    assert serial("[sig-node] Taints [Serial] evicts [Disruptive] [Conformance]")
    assert not serial("[sig-apps] Job should delete a job [Conformance]")


def test_a_spec_that_did_not_run_or_gave_up_has_not_passed() -> None:
    assert failure_in(_PASSED, 0) == ""
    assert failure_in("Ran 0 of 7355 Specs in 0.1 seconds\n", 0) == "no spec of this name ran"
    assert failure_in(f"Unexpected error while creating CustomResourceDefinition: 404\n{_PASSED}", 0)
    assert failure_in(_FAILED, 1) == "group not found Expected nil"
    assert failure_in("killed", -9) == "exit code -9"
