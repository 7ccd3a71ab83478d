"""Every attack on external services that the specification names, with the tests that make it.

The table names test functions, so that renaming or removing a test breaks its row. Where the defence is a rule, a check
or a right, at least one of the tests makes the attack twice (`tests/attacking.py`): with the defence, and without it,
where it must succeed. Rows without such a test give the reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.admission import test_egress_references as references
from tests.admission import test_node_forwarding as relays
from tests.agent.egress import test_compiling as compiling
from tests.agent.egress import test_egress_reconciler as keeping
from tests.agent.egress import test_lease_ownership as carrying
from tests.agent.egress import test_peer_transport as talking
from tests.attacking import PACKETS_TWICE, TWICE
from tests.controllers import test_external_services as controllers
from tests.datapath import test_egress_adoption as meddling
from tests.datapath import test_egress_attacks as packets
from tests.datapath import test_egress_defences as defences
from tests.datapath import test_egress_encryption as encryption
from tests.datapath import test_egress_leases as leases
from tests.datapath import test_egress_limits as limits
from tests.datapath import test_egress_packets as views
from tests.datapath import test_egress_values as values
from tests.datapath import test_packets as plain
from tests.decide.egress import test_external_service_status as resolving
from tests.decide.egress import test_released_addresses as releasing
from tests.decide.egress import test_source_ip_pool as claims
from tests.security import test_egress_attacks as writes
from tests.security import test_egress_rights as rights

Test = Callable[..., Any]
DOCS = Path(__file__).parents[2] / "docs" / "explanation"


@dataclass(frozen=True)
class Attack:
    """An attack, the tests that make it with and without the defence, further tests, and why `twice` is empty."""

    what: str
    twice: tuple[Test, ...] = ()
    also: tuple[Test, ...] = ()
    no_defence_to_take_away: str = ""


ATTACKS = {
    "A1": Attack(
        "a tenant writes somebody's address into sourceIP",
        (
            writes.test_a_tenant_writes_down_an_address_that_another_holds,
            writes.test_a_tenant_claims_of_a_class_that_is_not_for_his_namespace,
            writes.test_claims_need_the_right_to_use_their_class,
        ),
        (
            writes.test_l3_a1_tenants_write_neither_rules_nor_what_controllers_say,
            resolving.test_a_literal_address_counts_only_through_a_claim_of_the_own_namespace,
            references.test_a_class_is_for_those_who_may_use_it_in_the_namespace_of_the_claim,
            controllers.test_a_class_that_no_longer_allows_the_namespace_closes_everything_at_once_and_keeps_the_address,
        ),
    ),
    "A2": Attack(
        "a pod takes a source pod's address",
        (
            defences.test_a2_a_pod_takes_the_address_of_its_neighbour,
            compiling.test_a2_a_pod_that_got_the_address_of_one_that_is_gone_gets_its_rules,
        ),
        (
            plain.test_forged_senders_are_refused,
            plain.test_a_claim_by_arp_changes_nothing,
            keeping.test_a_rule_is_for_the_pod_that_it_names_and_for_no_other_with_its_address,
        ),
    ),
    "A3": Attack(
        "a pod forges a datagram of the tunnel",
        (defences.test_a3_a_pod_forges_a_datagram_of_the_tunnel,),
        (packets.test_a3_a7_only_the_node_itself_uses_its_transit_addresses,),
    ),
    "A4": Attack(
        "a pod dials a relay",
        also=(defences.test_a4_a16_nothing_listens_where_addresses_and_connections_are,),
        no_defence_to_take_away="by construction: there is no relay, and nothing listens",
    ),
    "A5": Attack(
        "a stranger on the segment uses a SourceIP as destination or source",
        (
            defences.test_a5_a_stranger_outside_asks_an_address_for_a_service,
            defences.test_a5_a_stranger_outside_has_one_of_our_addresses,
        ),
        (
            packets.test_a5_nobody_outside_but_the_server_gets_a_word_from_an_address,
            packets.test_a5_an_address_of_ours_as_a_source_on_the_lan_is_nobody,
            meddling.test_two_servers_may_use_the_same_port_of_an_address_for_different_services,
        ),
    ),
    "A6": Attack(
        "a stranger on the segment takes the server's address",
        no_defence_to_take_away="it cannot be prevented in packets without keys: the documentation says so",
    ),
    "A7": Attack(
        "a compromised node claims what is another's",
        (
            defences.test_a7_a_node_uses_what_belongs_to_another,
            writes.test_a_node_says_that_another_carries_an_address,
        ),
        (
            packets.test_a3_a7_only_the_node_itself_uses_its_transit_addresses,
            packets.test_a7_only_gateways_of_an_address_speak_for_the_server,
            relays.test_nothing_else_of_a_gateway,
            relays.test_the_status_of_forwarders_of_its_own,
            rights.test_a_node_follows_its_own_forwarders_and_answers_for_itself,
            encryption.test_a_key_that_another_node_claims_stays_with_whose_it_was,
        ),
    ),
    "A8": Attack(
        "an ExternalService points at the platform",
        (writes.test_a_service_points_at_a_node,),
        (
            writes.test_a_service_that_points_at_a_node_that_came_later_is_not_carried_out,
            references.test_a_target_is_outside_as_far_as_is_known,
            resolving.test_a_target_of_the_platform_makes_no_rule_at_all,
        ),
    ),
    "A9": Attack(
        "a tenant exposes the Service of another namespace",
        (writes.test_a_tenant_names_the_service_of_another_namespace,),
        (
            resolving.test_another_namespace_must_grant_the_use_of_its_pods,
            controllers.test_a_grant_that_is_withdrawn_takes_the_rules_with_it,
        ),
    ),
    "A10": Attack(
        "a tenant takes an address that another's partner still trusts",
        (
            writes.test_an_address_that_partners_still_trust_is_asked_for_by_another,
            writes.test_a_class_is_made_smaller_under_an_address_that_is_held,
        ),
        (
            releasing.test_without_its_claim_it_is_released_and_remembers_whose_it_was,
            releasing.test_it_lets_go_of_its_claim_rests_and_goes,
        ),
    ),
    "A11": Attack(
        "a holder whose time is over goes on",
        (
            defences.test_a11_a_gateway_whose_lease_has_run_out_forwards,
            defences.test_a11_a_gateway_whose_lease_has_run_out_says_where_the_address_is,
        ),
        (
            views.test_nothing_is_sent_when_the_lease_has_run_out,
            leases.test_an_address_moves_when_its_agent_is_killed_cordoned_stopped_or_frozen,
            carrying.test_one_that_is_cut_off_goes_silent_before_another_begins,
        ),
    ),
    "A12": Attack(
        "a tenant uses up connections, addresses or identities",
        (
            defences.test_a12_one_pod_takes_more_connections_than_there_are_for_all,
            writes.test_a_tenant_claims_more_than_his_quota,
        ),
        (
            limits.test_connections_over_the_limit_are_refused,
            limits.test_an_address_speaks_and_is_spoken_to_no_faster_than_it_may,
            claims.test_quotas_count_addresses_in_all_and_for_each_namespace,
            claims.test_an_identity_that_was_given_up_is_not_given_again_at_once,
        ),
    ),
    "A13": Attack(
        "a poisoned object breaks those of others",
        (
            defences.test_a13_a_poisoned_rule_takes_another_ones_way,
            defences.test_a13_a_rule_that_the_kernel_does_not_take_keeps_those_of_others_out,
        ),
        (
            meddling.test_a_part_that_the_kernel_does_not_take_harms_no_other,
            values.test_parts_that_the_kernel_does_not_take_are_found_by_halving,
            values.test_an_invalid_address_never_becomes_a_rule,
            controllers.test_an_invalid_object_affects_no_other_and_short_names_are_per_namespace,
        ),
    ),
    "A14": Attack(
        "packets leave with a wrong source: in races, without routes, after restarts, without tables, as errors",
        (
            defences.test_a14_nothing_leaves_under_a_transit_address_when_translation_is_gone,
            defences.test_a14_nothing_leaves_as_the_node_when_a_route_is_gone,
            defences.test_a14_an_error_that_a_router_makes_leaves_under_a_transit_address,
        ),
        (
            packets.test_a14_a_node_and_its_own_processes_get_nowhere_with_a_dialled_address,
            views.test_sizes_and_errors_about_them,
            meddling.test_deleted_tables_let_nothing_out_and_are_mended,
            meddling.test_another_process_takes_it_up_and_packets_notice_nothing,
            encryption.test_no_failure_sends_plaintext,
        ),
    ),
    "A15": Attack(
        "somebody forges ownership or votes",
        (
            talking.test_a15_a_vote_is_changed_on_its_way,
            talking.test_a15_a_vote_is_recorded_and_said_again,
            carrying.test_a15_a_node_says_that_it_is_a_gateway_and_owns_the_address,
        ),
        (
            talking.test_changed_forged_and_reflected_datagrams_are_dropped,
            talking.test_nothing_is_heard_twice_nor_in_a_later_life,
            carrying.test_nobody_speaks_for_another,
            leases.test_datagrams_of_strangers_change_nothing,
        ),
    ),
    "A16": Attack(
        "somebody reaches a gateway's own services at a SourceIP",
        also=(
            defences.test_a4_a16_nothing_listens_where_addresses_and_connections_are,
            packets.test_a5_nobody_outside_but_the_server_gets_a_word_from_an_address,
        ),
        no_defence_to_take_away="by construction: addresses are in a namespace where nothing listens",
    ),
    "A17": Attack(
        "a node makes itself a gateway",
        (writes.test_a_node_labels_itself_a_gateway,),
        (relays.test_no_gateway_that_does_not_name_it_and_no_spec,),
    ),
}
DOCUMENTED = {"A6": ("external-services.md", "cannot distinguish the server from a host that took its address")}


def test_every_attack_of_the_specification_has_a_row() -> None:
    assert list(ATTACKS) == [f"A{number}" for number in range(1, 18)]


@pytest.mark.parametrize("number", ATTACKS)
def test_the_attack_is_played(number: str) -> None:
    if number in DOCUMENTED:
        page, sentence = DOCUMENTED[number]
        assert sentence in (DOCS / page).read_text()
    else:
        assert_it_is_made(ATTACKS[number])


@pytest.mark.parametrize("number", ATTACKS)
def test_the_attack_succeeds_without_its_defence_or_the_row_says_why_there_is_none(number: str) -> None:
    assert_it_is_made_twice(ATTACKS[number])


def assert_it_is_made(attack: Attack) -> None:
    """Assert that the tests of an attack exist under their names."""
    for test in (*attack.twice, *attack.also):
        module = inspect.getmodule(test)
        assert module is not None
        assert Path(inspect.getfile(test)).name.startswith("test_"), f"{test.__qualname__} is in no file of tests"
        assert test.__name__.startswith("test_"), f"{test.__qualname__} is no test"
        assert getattr(module, test.__name__) is test, f"{test.__qualname__} is hidden by another of its name"
    assert attack.twice or attack.also, "no test makes this attack"


def assert_it_is_made_twice(attack: Attack) -> None:
    """Assert that an attack is also made without its defence, unless there is none to take away."""
    assert bool(attack.twice) != bool(attack.no_defence_to_take_away)
    for test in attack.twice:
        marks = [mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        twice = TWICE.args in marks or PACKETS_TWICE.args in marks
        assert twice, f"{test.__qualname__} is not played without its defence"
        assert "defended" in inspect.signature(test).parameters
