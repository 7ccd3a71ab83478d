"""Every controller can work with its role, and its role has no unused rule.

All stories, and tasks outside stories, run on servers with RBAC, and the requests are compared with the roles: none was
denied, and every verb on every resource was used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import product
from types import ModuleType
from typing import NamedTuple

import pytest

from tarmac.api import identities
from tarmac.controllers.manager import CONTROLLERS, choose
from tarmac.controllers.manager import WORKLOADS as OF_WORKLOADS
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.authorization.controllerpolicy import BESIDE_OTHERS, DUTIES, Role, controller_roles
from tarmac.server.security.authorization.policy import Rule as RuleText
from tarmac.server.security.users import User
from tests.controllers import (
    test_boot_disks,
    test_budgets_of_kubernetes_kinds,
    test_cluster_addresses,
    test_controller_roles,
    test_deployments,
    test_disruption_budgets,
    test_endpoints_objects,
    test_endpoints_of_services,
    test_ephemeral_volumes,
    test_external_services,
    test_instance_types,
    test_interfaces_of_pods,
    test_lost_nodes,
    test_machine_images,
    test_node_decommission,
    test_orphaning,
    test_pod_scheduling,
    test_preemption,
    test_public_addresses,
    test_revisions,
    test_source_ip_claims,
    test_workloads,
)
from tests.stories.all import STORIES
from tests.stories.test_in_process import tell

Chore = Callable[[], None]
Asked = set[tuple[str, RequestInfo]]


def _tests_of(module: ModuleType) -> list[Chore]:
    return [each for name, each in vars(module).items() if name.startswith("test_")]


CHORES: tuple[Chore, ...] = (
    test_boot_disks.test_another_image_means_another_boot_disk_and_the_data_lives_on,
    test_deployments.test_an_instance_of_somebody_else_is_left_alone_and_named,
    test_deployments.test_scaled_down_the_highest_go_and_their_disks_with_them_unless_retained,
    test_disruption_budgets.test_an_eviction_that_never_became_a_deletion_is_taken_back,
    test_endpoints_of_services.test_a_pod_that_goes_or_is_relabelled_is_let_go,
    test_endpoints_of_services.test_types_that_are_not_offered_are_told_once,
    test_ephemeral_volumes.test_the_claim_is_made_used_and_taken_away_with_the_pod,
    test_interfaces_of_pods.test_a_network_goes_only_when_its_pods_are_gone,
    test_interfaces_of_pods.test_a_pod_that_was_put_on_a_node_by_others_gets_one_too,
    test_lost_nodes.test_pods_of_a_deleted_node_are_removed,
    test_pod_scheduling.test_a_reason_that_stays_is_written_once,
    test_orphaning.test_a_deployment_takes_its_instances_with_it_and_is_made_again,
    test_preemption.test_an_important_workload_gets_its_room_in_a_full_city_and_the_plan_says_whose,
    test_preemption.test_the_least_important_goes_and_the_pod_gets_its_place,
    test_revisions.test_a_template_that_nobody_names_goes_with_the_next_revision,
    test_workloads.test_a_city_that_cannot_serve_is_said_and_served_once_it_can,
    *_tests_of(test_budgets_of_kubernetes_kinds),
    *_tests_of(test_cluster_addresses),
    *_tests_of(test_endpoints_objects),
    *_tests_of(test_external_services),
    *_tests_of(test_instance_types),
    *_tests_of(test_machine_images),
    test_node_decommission.test_certificates_of_all_who_left_stay_refused,
    test_node_decommission.test_its_pods_go_then_its_certificates_then_it,
    test_node_decommission.test_its_disks_go_only_when_it_says_so,
    *_tests_of(test_source_ip_claims),
    test_public_addresses.test_a_service_shows_its_address_once_a_gateway_has_acknowledged_it,
    test_public_addresses.test_a_released_address_rests_and_returns_only_to_its_namespace,
    test_public_addresses.test_a_workload_announces_its_address_from_the_cities_with_ready_instances,
    *_tests_of(test_controller_roles),
)

# Rules that need a race or a server of another kind.
SELDOM = {
    ("tarmac-workload", "get", "workloaddeployments"): "another process has made the deployment first",
    ("tarmac-ingress", "get", "publicaddresses"): "another process has taken the address first",
    ("tarmac-namespace", "delete", "*"): "an aggregated API that cannot delete a collection",
    ("tarmac-network", "create", "events"): "a node claims an address in the range of a Network",
    ("tarmac-network", "patch", "events"): "the same, more than once",
    (identities.PROCESS, "list", "localmachineimages"): "from the first Instance on that refers to one",
    (identities.PROCESS, "watch", "localmachineimages"): "from the first Instance on that refers to one",
}
SELDOM_FOLLOWED = {"configmaps", "localmachineimages", "secrets"}  # from the first Instance on that refers to one
BESIDE = ("rollout", "quota_hit_and_lifted", "city_without_location_then_added", "deletion")
FOLLOW = {"list", "watch"}


@contextmanager
def listening(patch: pytest.MonkeyPatch, asked: Asked, refused: list[str]) -> Generator[None]:
    decide = Authorizer.refuses

    def refuses(self: Authorizer, user: User, info: RequestInfo, query: str = "") -> str | None:
        answer = decide(self, user, info, query)
        if user.name.startswith(identities.user_name("")) and info.is_resource:
            asked.add((user.name.rpartition(":")[2], info))
            if answer is not None:
                refused.append(f"{user.name} {info.verb} {info.resource}/{info.subresource}")
        return answer

    with patch.context() as changed:
        changed.setattr(Authorizer, "refuses", refuses)
        yield


@pytest.mark.timeout(300)
def test_every_right_is_there_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Asked = set()
    refused: list[str] = []
    with listening(monkeypatch, asked, refused):
        for name in STORIES:
            tell(name)
        for chore in CHORES:
            chore()
    assert not refused
    unused = {
        f"{role.name}: {atom.verb} {atom.resource} {atom.name}"
        for role in controller_roles()
        for text in role.rules
        for atom in atoms(text)
        if (role.account, atom.verb, atom.resource) not in SELDOM
        and not any(account == role.account and _uses(text, atom, info) for account, info in asked)
    }
    assert not unused


@pytest.mark.timeout(300)
def test_beside_another_cluster_less_is_needed_and_no_more_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Asked = set()
    with listening(monkeypatch, asked, []):
        for name in BESIDE:
            tell(name, beside=True)
    names = [identity for name in choose(OF_WORKLOADS) for identity in identities.identities_of(name)]
    given = {(role.account, atom) for role in controller_roles(names, BESIDE_OTHERS) for atom in _all(role)}
    at_home = {(role.account, atom) for role in controller_roles() for atom in _all(role)}
    assert given < at_home, "roles elsewhere are a part of those at home"
    wanted = {(account, _atom(info)) for account, info in asked if account in {name for name, _ in given}}
    assert not {each for each in wanted - given if (each[0], each[1]._replace(name="")) not in given}
    followed = {atom.resource for account, atom in given if account == identities.PROCESS and atom.verb == "watch"}
    watched = {info.resource for account, info in asked if account == identities.PROCESS and info.verb == "watch"}
    assert followed - SELDOM_FOLLOWED == watched


def _all(role: Role) -> Iterator[Atom]:
    return (atom for text in role.rules for atom in atoms(text))


def _atom(info: RequestInfo) -> Atom:
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    return Atom(info.group, resource, info.verb, info.name)


class Atom(NamedTuple):
    """The smallest rule: one verb on one resource, perhaps on one object."""

    group: str
    resource: str
    verb: str
    name: str


def atoms(text: RuleText) -> Iterator[Atom]:
    """Split a rule into atoms."""
    parts = (text.get("apiGroups"), text.get("resources"), text.get("verbs"))
    for chosen in product(*(part or () for part in parts), text.get("resourceNames") or ("",)):
        yield Atom(*chosen)


def _uses(text: RuleText, atom: Atom, info: RequestInfo) -> bool:
    resource, _, subresource = atom.resource.partition("/")
    return (
        info.verb in _alike(text, atom.verb)
        and (atom.group == "*" or (info.group, info.resource, info.subresource) == (atom.group, resource, subresource))
        and atom.name in ("", info.name)
    )


def _alike(text: RuleText, verb: str) -> set[str]:
    """Verbs that go together: a client lists where it cannot stream, and counts where it repeats an event."""
    verbs = set(text["verbs"])
    if text["resources"] == ["events"]:
        return verbs
    return FOLLOW if verb in FOLLOW and verbs >= FOLLOW else {verb}


def test_no_two_controllers_share_a_user_and_each_has_its_role() -> None:
    acting = [identity for name in CONTROLLERS for identity in identities.identities_of(name)]
    assert len(set(acting)) == len(acting)
    assert set(acting) | {identities.BOOTSTRAP} == set(DUTIES)
    accounts = [role.account for role in controller_roles()]
    assert len(set(accounts)) == len(accounts) == len(acting) + 2
