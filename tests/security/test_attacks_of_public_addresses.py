"""Every attack on public addresses that the specification names, with the tests that make it.

The table names test functions, as that of external services does: where the defence is a rule, a check or a decision,
at least one of the tests makes the attack twice, with the defence and without it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.admission import test_ingress_references as references
from tests.agent.ingress import test_compiling as compiling
from tests.agent.ingress import test_sessions as sessions
from tests.controllers import test_public_addresses as controllers
from tests.datapath import test_bgp as routes
from tests.datapath import test_bgp_attacks as routers
from tests.datapath import test_ingress_attacks as packets
from tests.datapath import test_ingress_contract as contract
from tests.datapath import test_ingress_defences as defences
from tests.datapath import test_ingress_limits as limits
from tests.datapath import test_ingress_packets as paths
from tests.datapath import test_node_ports as doors
from tests.security import test_attempts_on_public_addresses as attempts
from tests.security import test_egress_attacks as writes
from tests.security import test_ingress_rights as rights
from tests.security import test_the_way_in as kinds
from tests.security.test_attacks_of_external_services import (
    DOCS,
    Attack,
    assert_it_is_made,
    assert_it_is_made_twice,
)

ATTACKS = {
    "T1": Attack(
        "a tenant asks for the address of another, or writes it into a status",
        (
            attempts.test_t1_a_tenant_asks_for_an_address_that_another_holds,
            attempts.test_t1_a_tenant_asks_for_an_address_that_clients_still_trust,
        ),
        (
            attempts.test_t1_an_address_in_a_status_is_believed_by_no_controller,
            compiling.test_only_the_holder_of_that_uid_counts,
            compiling.test_a_slice_that_names_a_pod_of_another_namespace_leads_nowhere_here,
            kinds.test_a_tenant_gets_no_address_of_others,
            kinds.test_a_tenant_reads_and_writes_none,
        ),
    ),
    "T2": Attack(
        "a Service takes a port of another one on a shared address",
        (
            attempts.test_t2_a_service_takes_the_port_of_another_on_a_shared_address,
            attempts.test_t2_a_tenant_shares_the_address_of_another_by_its_key,
        ),
        (
            compiling.test_services_share_an_address_and_the_first_holder_has_a_common_port,
            controllers.test_services_of_one_namespace_share_an_address_by_key_with_different_ports,
        ),
    ),
    "T3": Attack(
        "a host or a former owner claims an address by ARP or neighbor discovery",
        (
            defences.test_t3_a_gateway_whose_lease_has_run_out_says_where_the_address_is,
            defences.test_t3_a_gateway_whose_lease_has_run_out_forwards,
        ),
        (
            defences.test_t3_a_host_that_claims_an_address_is_found_and_no_node_believes_it,
            paths.test_a_virtual_hardware_address_moves_with_its_address,
            paths.test_packets_stop_when_the_lease_has_run_out,
        ),
    ),
    "T4": Attack(
        "a host forges or resets a BGP session, or a router announces routes to nodes",
        (
            defences.test_t4_a_stranger_reaches_the_speaker,
            defences.test_t4_a_router_announces_routes_to_a_node,
            defences.test_t4_a_router_without_the_password_opens_a_session,
            defences.test_t4_a_host_that_is_further_away_opens_a_session,
        ),
        (
            routers.test_a_hostile_router_gets_nothing_imported_and_nothing_passed_on,
            routers.test_sessions_need_the_password,
            rights.test_a_node_reads_the_passwords_of_its_own_peers_only,
            sessions.test_hostile_addresses_never_become_configuration,
        ),
    ),
    "T5": Attack(
        "a pod speaks BGP, BFD or the tunnel's protocol as its node",
        (
            defences.test_t5_a_pod_opens_the_session_of_its_node,
            defences.test_t5_a_pod_sends_bfd_as_its_node,
            defences.test_t5_a_pod_forges_a_datagram_of_the_tunnel,
        ),
        (routers.test_only_routers_reach_the_speaker_and_no_pod_speaks_for_the_node,),
    ),
    "T6": Attack(
        "a compromised node, or a host outside, sends as an address that it does not serve",
        (
            defences.test_t6_a_node_answers_as_an_address_that_it_serves_not,
            defences.test_t6_a_packet_comes_in_from_outside_as_a_public_address,
        ),
        (
            packets.test_only_nodes_with_endpoints_answer_as_a_public_address,
            packets.test_only_nodes_send_packets_of_clients_into_the_tunnel,
            packets.test_rules_deleted_by_hand_let_no_public_address_out,
        ),
    ),
    "T7": Attack(
        "a client outside has the address of a pod and wants its rights",
        (
            defences.test_t7_a_client_has_the_address_of_a_pod_and_wants_its_rights,
            defences.test_t7_t9_an_ipv4_address_comes_inside_an_ipv6_one,
        ),
        (
            contract.test_a_client_whose_address_means_a_pod_is_masked,
            doors.test_a_client_whose_address_means_a_pod_is_masked_at_node_ports,
            routers.test_a_client_whose_address_means_a_pod_is_masked_behind_a_router_too,
        ),
    ),
    "T8": Attack(
        "a flood of SYNs",
        (
            defences.test_t8_a_flood_of_syns_leaves_state_at_a_gateway,
            defences.test_t8_a_flood_reaches_the_node_of_the_pod,
        ),
        (
            limits.test_new_connections_over_the_rate_are_dropped_at_the_gateway,
            limits.test_connections_over_the_limit_get_no_answer_and_those_within_it_go_on,
            paths.test_a_syn_leaves_no_state_at_a_gateway_and_an_ack_makes_it,
            routers.test_a_syn_that_a_router_led_here_leaves_no_state,
        ),
    ),
    "T9": Attack(
        "a client passes the source ranges by IPv6, fragments, mapped addresses or a node port",
        (
            defences.test_t9_a_client_that_no_range_names_gets_through_whole_or_in_fragments,
            defences.test_t9_a_client_that_no_range_names_uses_the_node_port,
            defences.test_t7_t9_an_ipv4_address_comes_inside_an_ipv6_one,
        ),
        (
            contract.test_permitted_clients_get_through_and_all_others_do_not,
            contract.test_source_ranges_hold_for_nodes_by_their_own_address,
            doors.test_source_ranges_hold_at_node_ports,
            paths.test_a_changed_source_range_ends_what_it_forbids_within_a_second,
            paths.test_large_datagrams_pass_and_fragments_ask_the_source_ranges,
            routers.test_source_ranges_hold_for_clients_that_routers_lead_here,
        ),
    ),
    "T10": Attack(
        "a tenant exhausts a pool or the routes of a session, or one bad object stops the rest",
        (
            attempts.test_t10_a_tenant_takes_more_addresses_than_its_quota,
            compiling.test_an_unreadable_source_range_permits_no_client_and_harms_no_other_service,
        ),
        (
            routes.test_addresses_beyond_the_limit_of_a_session_are_withheld_and_reported,
            compiling.test_hostile_addresses_in_slices_are_left_out,
            contract.test_a_missing_network_fails_its_addresses_and_no_others,
            sessions.test_a_session_waits_for_its_password,
        ),
    ),
    "T11": Attack(
        "a node makes itself a gateway",
        (
            writes.test_a_node_labels_itself_a_gateway,
            kinds.test_an_announcement_of_a_node_that_is_no_gateway,
            kinds.test_the_entry_of_another_gateway,
        ),
        (
            kinds.test_a_stolen_node_writes_its_own_entry_at_most,
            references.test_a_node_reports_nothing_else_of_an_address,
        ),
    ),
}


def test_every_attack_of_the_specification_has_a_row() -> None:
    assert list(ATTACKS) == [f"T{number}" for number in range(1, 12)]


@pytest.mark.parametrize("number", ATTACKS)
def test_the_attack_is_made_twice(number: str) -> None:
    assert_it_is_made(ATTACKS[number])
    assert_it_is_made_twice(ATTACKS[number])


def test_the_page_names_tests_of_this_table() -> None:
    page = (Path(DOCS) / "security.md").read_text().partition("### Connections from outside")[2].partition("\n### ")[0]
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", page))
    made = {test.__name__ for attack in ATTACKS.values() for test in (*attack.twice, *attack.also)}
    assert named, "the page names none"
    assert named <= made, named - made
