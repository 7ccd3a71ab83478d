"""Shorthands are stored in their full form, and rejected where they contradict it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.decode.bodies import check_object
from tarmac.api.shared import LAST_APPLIED
from tarmac.api.status import BadRequest, Invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.client.targets.typed import WORKLOADS
from tests.api.compute.making import DISK, GONE, C, N, P, T, admitted, causes, edited, machines, resource, workload


def test_labels_and_annotations_directly_in_the_template() -> None:
    obj = workload(
        {"spec.template.metadata": GONE, "spec.template.labels": {"a": "b"}, "spec.template.annotations": {"c": "d"}}
    )
    template = admitted(obj)["spec"]["template"]
    assert template["metadata"] == {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert (template["labels"], template["annotations"]) == ({"a": "b"}, {"c": "d"}), "`kubectl apply` looks for them"
    typed = WORKLOADS.decode(msgspec.json.encode(obj)).spec.template
    assert (typed.metadata and typed.metadata.labels, typed.labels) == ({"a": "b"}, {}), "read in one place"


def test_labels_in_both_places_must_agree() -> None:
    same = workload({"spec.template.labels": {"tier": "app"}})
    assert admitted(same)["spec"]["template"]["metadata"]["labels"] == {"tier": "app"}
    other = workload({"spec.template.labels": {"tier": "db"}})
    assert causes(other) == ["Forbidden spec.template.labels"]


SHORT, FULL = "spec.template.labels", "spec.template.metadata.labels"
LAST_APPLIED_FIELD = "metadata.annotations"


def updated(stored: Any, edits: dict[str, Any]) -> tuple[Any, Any]:
    """Return the short and the full form after an update."""
    old, new = admitted(edited(workload(), stored)), admitted(edited(edited(workload(), stored), edits))
    resource("Workload").strategy.prepare_for_update(new, old)
    template = new["spec"]["template"]
    return template.get("labels"), template.get("metadata", {}).get("labels")


APP, DB, WEB = {"tier": "app"}, {"tier": "db"}, {"tier": "web"}


@pytest.mark.parametrize(
    ("stored", "edits", "short", "full"),
    [
        ({FULL: APP}, {SHORT: DB}, DB, DB),
        ({FULL: APP, SHORT: APP}, {SHORT: DB}, DB, DB),
        ({FULL: APP, SHORT: APP}, {FULL: DB}, DB, DB),
        ({FULL: APP, SHORT: APP}, {FULL: DB, SHORT: DB}, DB, DB),
        ({FULL: APP, SHORT: APP}, {FULL: DB, SHORT: WEB}, WEB, DB),
        ({FULL: APP, SHORT: APP}, {SHORT: GONE}, None, APP),
        ({FULL: APP, SHORT: APP}, {SHORT: GONE, FULL: GONE}, None, None),
        ({FULL: APP, SHORT: APP}, {FULL: GONE}, APP, APP),
        ({FULL: APP, SHORT: APP}, {SHORT: {}}, {}, {}),
    ],
)
def test_the_form_that_was_changed_counts_and_the_other_follows(stored: Any, edits: Any, short: Any, full: Any) -> None:
    """A client-side apply sends the short form over the stored object, which has the full form in it."""
    assert updated(stored, edits) == (short, full)


def test_two_changes_that_disagree_are_refused() -> None:
    assert causes(workload({SHORT: DB}), old=workload()) == []
    assert causes(workload({SHORT: DB, FULL: WEB}), old=workload()) == ["Forbidden spec.template.labels"]


@pytest.mark.parametrize(
    ("template", "full"),
    [({}, None), ({"metadata": {"labels": APP}}, APP), ({"metadata": 1}, None), (3, None)],
    ids=["taken away", "written in full", "odd", "no template"],
)
def test_an_applied_file_without_the_short_form_says_whether_labels_are_wanted(template: Any, full: Any) -> None:
    noted = {LAST_APPLIED: msgspec.json.encode({"spec": {"template": template}}).decode()}
    stored = {FULL: APP, SHORT: APP}
    assert updated(stored, {SHORT: GONE, LAST_APPLIED_FIELD: noted}) == (None, full)


def test_an_unreadable_last_applied_annotation_removes_no_field() -> None:
    stored = {FULL: APP, SHORT: APP}
    assert updated(stored, {SHORT: GONE, LAST_APPLIED_FIELD: {LAST_APPLIED: "{"}}) == (None, APP)
    noted = {LAST_APPLIED_FIELD: {LAST_APPLIED: "{}"}}
    assert updated({**stored, **noted}, {SHORT: GONE}) == (None, APP), "an older note belongs to another write"


def test_a_network_by_its_name() -> None:
    interfaces = admitted(workload({f"{N}[0].network": "corp"}))["spec"]["template"]["spec"]["networkInterfaces"]
    assert interfaces[0]["network"] == {"name": "corp"}


def test_interfaces_are_named_by_their_order_around_names_that_are_taken() -> None:
    named = [{"network": "a"}, {"network": "b", "name": "lan"}, {"network": "c"}, {"network": "d", "name": "eth2"}]
    interfaces = admitted(workload({N: named}))["spec"]["template"]["spec"]["networkInterfaces"]
    assert [interface["name"] for interface in interfaces] == ["eth0", "lan", "eth3", "eth2"]


def test_city_codes_are_stored_in_capitals() -> None:
    stored = admitted(workload({f"{P}.cityCodes": ["dfw", "Sea"], f"{P}.onCityLoss": {"cities": ["lhr"]}}))
    placement = stored["spec"]["placements"][0]
    assert (placement["cityCodes"], placement["onCityLoss"]["cities"]) == (["DFW", "SEA"], ["LHR"])


def test_a_device_name_on_an_attachment_is_stored_on_the_disk() -> None:
    obj = machines({f"{T}.runtime.virtualMachine.volumeAttachments[0].deviceName": "root"})
    spec = admitted(obj)["spec"]["template"]["spec"]
    assert spec["volumes"][0]["disk"]["deviceName"] == "root"
    assert spec["runtime"]["virtualMachine"]["volumeAttachments"] == [{"name": "boot"}]


def test_a_device_name_that_disagrees_or_has_no_disk_is_refused() -> None:
    attachment = f"{C}[0].volumeAttachments[0].deviceName"
    assert causes(workload({attachment: "a", f"{DISK}.deviceName": "b"})) == [f"Forbidden {attachment}"]
    memory = {f"{T}.volumes[0]": {"name": "data", "memory": {}}}
    assert causes(workload({attachment: "a", **memory})) == [f"Forbidden {attachment}"]


def test_normalising_twice_changes_nothing() -> None:
    once = admitted(machines())
    assert admitted(once) == once


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2000) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "spec", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
PLACES = ["spec", "spec.template", T, f"{T}.runtime", f"{T}.runtime.sandbox", C, f"{C}[0]", f"{C}[0].resources"]
MORE_PLACES = [f"{C}[0].volumeAttachments", f"{T}.volumes", f"{T}.volumes[0]", DISK, N, f"{N}[0]", f"{N}[0].network"]
LAST_PLACES = ["spec.placements", P, f"{P}.cityCodes", f"{P}.scaleSettings", f"{P}.selector", "spec.template.labels"]


@given(st.sampled_from(PLACES + MORE_PLACES + LAST_PLACES), anything)
def test_nothing_a_client_sends_breaks_validation(place: str, value: Any) -> None:
    served = resource("Workload")
    obj = edited(workload(), {place: value})
    served.strategy.normalise(obj)
    try:
        check_object(served, obj)
    except (BadRequest, Invalid):
        return
    served.strategy.default(obj)
    served.strategy.validate(obj, FieldErrors())
    served.strategy.warnings(obj, None)


@pytest.mark.parametrize("kind", ["Workload", "WorkloadDeployment", "Instance"])
def test_an_object_without_a_spec_is_refused_and_nothing_more(kind: str) -> None:
    obj = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": kind, "metadata": {"name": "x"}}
    assert causes(obj, kind=kind) == ["Required spec"]
