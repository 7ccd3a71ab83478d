"""Rules that no other test here breaks: each case of `refusals.yaml` is rejected for exactly the causes it names.

`test_against_kube_apiserver.py` creates the same objects on the real server, which must name the same causes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tarmac.api.kubernetes.resources import resources
from tests.kubernetes.rules import Object, refused_fields

REFUSALS: list[Object] = yaml.safe_load((Path(__file__).parent / "refusals.yaml").read_text())
_SERVED = {resource.kind: resource for resource in reversed(resources())}


@pytest.mark.parametrize("case", REFUSALS, ids=[f"{case['kind']}-{case['case']}" for case in REFUSALS])
def test_it_is_refused_for_these_causes_and_no_others(case: Object) -> None:
    resource, obj = _SERVED[case["kind"]], case["object"]
    if resource.namespaced:
        obj = {**obj, "metadata": {"namespace": "default", **obj["metadata"]}}
    found = [f"{reason} {field}" for reason, field in refused_fields(resource.kind, obj, resource.group)]
    assert found == case["causes"]
