"""Template hashes, history and undo, numbers of instances."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.scaling import ScaleSettings
from tarmac.api.compute.workload import Rollout, WorkloadDeploymentSpec, WorkloadReference
from tarmac.api.declare import decode
from tarmac.api.networking.policy import InterfacePolicy
from tarmac.decide import reasons
from tarmac.decide.rollout import (
    KEPT_REVISIONS,
    CityGoal,
    Revision,
    RolloutLimits,
    desired_replicas,
    limits,
    record,
    template_hash,
    undo,
)


def template(image: str = "ghcr.io/acme/api:1", **metadata: Any) -> InstanceTemplate:
    """Return a small template."""
    containers = [{"name": "api", "image": image, "ports": [{"name": "http", "port": 80}]}]
    spec = {
        "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}, "sandbox": {"containers": containers}},
        "networkInterfaces": [{"name": "eth0", "network": {"name": "default"}}],
    }
    return decode(InstanceTemplate, {"metadata": metadata, "spec": spec})


def test_the_hash_does_not_depend_on_the_order_of_keys() -> None:
    """Labels written in another order are the same labels."""
    one = template(labels={"a": "1", "b": "2"})
    other = template(labels={"b": "2", "a": "1"})
    assert template_hash(one) == template_hash(other)


def test_the_hash_does_not_depend_on_who_filled_in_defaults() -> None:
    """An explicit default, an empty metadata and a shorthand are the same template."""
    plain, explicit, short = template(), template(), template(labels={"a": "1"})
    assert explicit.spec.runtime.sandbox is not None
    explicit.spec.runtime.sandbox.containers[0].ports[0].protocol = "TCP"
    explicit.metadata = None
    assert template_hash(plain) == template_hash(explicit)
    short.metadata, short.labels = None, {"a": "1"}
    assert template_hash(short) == template_hash(template(labels={"a": "1"}))


def test_fields_that_came_later_do_not_change_the_hash_of_what_is_stored() -> None:
    """Otherwise an upgrade would replace every instance of every workload."""
    assert template_hash(template()) == "b98f4ba3cf"


@pytest.mark.parametrize(
    "changed",
    [
        template("ghcr.io/acme/api:2"),
        template(labels={"tier": "front"}),
        template(annotations={"compute.datumapis.com/restartedAt": "2026-11-15T12:00:00Z"}),
    ],
)
def test_every_change_changes_the_hash(changed: InstanceTemplate) -> None:
    """Content, labels and annotations; a restart changes an annotation."""
    assert template_hash(changed) != template_hash(template())


def test_an_empty_policy_is_not_no_policy() -> None:
    """An empty policy denies, a missing one allows."""
    open_, closed = template(), template()
    closed.spec.network_interfaces[0].network_policy = InterfacePolicy()
    assert template_hash(open_) != template_hash(closed)


def test_the_hash_stays_what_it_was() -> None:
    """Stored instances carry it, so every version of the program must compute the same."""
    assert template_hash(template(labels={"app": "web"})) == "deb77673aa"


def history(*images: str) -> tuple[Revision, ...]:
    """Return the revisions of images that were rolled out one after the other."""
    revisions: tuple[Revision, ...] = ()
    for moment, image in enumerate(images):
        revisions = record(revisions, template(image), float(moment))
    return revisions


def test_a_new_template_is_a_new_revision_and_an_old_one_is_not() -> None:
    """Storing the same template again records nothing."""
    assert [revision.number for revision in history("x/a", "x/b", "x/b")] == [1, 2]


def test_undo_goes_back_to_the_one_before_and_again_forth() -> None:
    """Each undo is a new revision equal to an old template."""
    revisions = history("x/a", "x/b")
    for number, back_to in ((3, 1), (4, 2), (5, 3)):
        earlier = undo(revisions).value
        assert earlier is not None
        assert earlier.number == number - 2
        assert earlier.template_hash == history("x/a", "x/b")[(back_to - 1) % 2].template_hash
        revisions = record(revisions, template(("x/a", "x/b")[(back_to - 1) % 2]), 9.0)
        assert revisions[-1].number == number


def test_undo_to_a_revision_by_number() -> None:
    """Any stored one."""
    found = undo(history("x/a", "x/b", "x/c"), to=1).value
    assert found is not None
    assert found.number == 1


def test_undo_says_why_it_cannot() -> None:
    """No earlier revision, or one outside the history."""
    only = undo(history("x/a"))
    assert not only.decided
    assert only.refusals[0].reason == reasons.REVISION_NOT_FOUND
    assert "1 to 2" in undo(history("x/a", "x/b"), to=7).refusals[0].change


def test_twenty_revisions_are_kept_and_numbers_go_on() -> None:
    """The oldest are removed."""
    revisions = history(*(f"x/a:{number}" for number in range(25)))
    assert len(revisions) == KEPT_REVISIONS == 20
    assert (revisions[0].number, revisions[-1].number) == (6, 25)


@pytest.mark.parametrize(
    ("low", "high", "asked", "desired"),
    [(2, None, None, 2), (2, None, 7, 7), (2, 5, 9, 5), (2, 5, 0, 2), (2, None, 1000, 1000), (3, 5, 1, 3)],
)
def test_the_number_wanted_is_kept_within_bounds(low: int, high: int | None, asked: int | None, desired: int) -> None:
    """The number of the autoscaler, or the minimum."""
    assert desired_replicas(ScaleSettings(min_replicas=low, max_replicas=high), asked) == desired


@pytest.mark.parametrize(
    ("rollout", "desired", "expected"),
    [
        (None, 5, RolloutLimits(1, 0)),
        (Rollout(max_unavailable="30%", max_surge="30%"), 5, RolloutLimits(1, 2)),
        (Rollout(max_unavailable="10%", max_surge=0), 5, RolloutLimits(1, 0)),
        (Rollout(max_unavailable=0, max_surge=2), 5, RolloutLimits(0, 2)),
        (Rollout(max_unavailable=9, max_surge="100%"), 5, RolloutLimits(5, 5)),
    ],
)
def test_limits_in_instances(rollout: Rollout | None, desired: int, expected: RolloutLimits) -> None:
    """Percentages round toward safety, and a rollout can always progress."""
    assert limits(rollout, desired) == expected


def test_a_deployment_as_a_goal() -> None:
    """All inputs of a rollout come from the specification."""
    spec = WorkloadDeploymentSpec(
        workload_ref=WorkloadReference("web", "uid"),
        placement_name="us",
        city_code="DFW",
        template=template(),
        scale_settings=ScaleSettings(min_replicas=4, instance_management_policy="Parallel"),
        replicas=10,
        rollout=Rollout(max_unavailable="50%"),
        paused=True,
    )
    assert CityGoal.of(spec) == CityGoal(10, template_hash(template()), RolloutLimits(5, 0), ordered=False, paused=True)
