"""BIRD's configuration for sessions, as BIRD itself reads it, and its report about them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.datapath.linux.ingress.speakerconfig import (
    is_password,
    read_reports,
    read_routes,
    speaker_config,
    symbol,
)
from tarmac.datapath.speaker import BgpSession, RoutedRanges, SessionReport, SpeakerState
from tests.datapath.routers import find_bird

POOL = RoutedRanges(("192.0.2.0/25", "2001:db8::/64"), ((65000, 100), (65000, 1, 2)), 7)
EDGE = BgpSession("edge.example", "10.9.0.2", 65001, 65010, (4,), (POOL,), restart=60)
SAID = f"""\
Name       Proto      Table      State  Since         Info
device1    Device     ---        up     18:58:30.394

{symbol("edge.example")} BGP        ---        up     18:58:16.616  Established
  BGP state:          Established
    Neighbor address: 10.9.0.2
  Channel ipv4
    State:          UP
    Export limit:   3 [HIT]
      Action:       block
    Routes:         0 imported, 3 exported, 0 preferred
  Channel ipv6
    Routes:         0 imported, 1 exported, 0 preferred

{symbol("far")} BGP        ---        start  18:58:16.616  Active        Socket: Connection refused
  BGP state:          Active
    Neighbor address: 10.9.0.3
  Last error:       Socket: Connection refused

{symbol("unknown")} BGP        ---        start  18:58:16.616  Active
  BGP state:          Active
"""
VARIANTS = {
    "usual": EDGE,
    "without pools": replace(EDGE, pools=()),
    "both families": replace(EDGE, families=(4, 6), next_hops=((6, "fd09::1"),)),
    "IPv6": replace(EDGE, address="fd09::2", families=(6,), source="fd09::1"),
    "password": replace(EDGE, password="It's; {long} # \x7e$"),
    "BFD": replace(EDGE, restart=0, bfd=(0.3, 3)),
    "multihop": replace(EDGE, multihop=True, port=1790, max_prefixes=1),
    "TTL security": replace(EDGE, checks_ttl=True, hold_time=30),
    "one system": replace(EDGE, asn=65010, local_preference=200),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_bird_accepts_every_sort_of_session(tmp_path: Path, variant: str) -> None:
    config = tmp_path / "speaker.conf"
    config.write_text(speaker_config(SpeakerState("10.9.0.1", (VARIANTS[variant], replace(EDGE, name="second")))))
    done = subprocess.run([find_bird(), "-p", "-c", config], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, f"{done.stderr}\n{config.read_text()}"


def test_nothing_is_imported_and_only_single_addresses_of_pools_are_exported() -> None:
    text = speaker_config(SpeakerState("10.9.0.1", tuple(VARIANTS.values())))
    assert "import all" not in text.replace("import all; export none;", "", 2), "all but from the kernel's table"
    assert text.count("import none; export filter ") == len(VARIANTS) + 1
    assert "net ~ [ 192.0.2.0/25{32,32} ]" in text
    assert "net ~ [ 2001:db8::/64{128,128} ]" in text


def test_the_preference_is_for_routers_of_the_same_system() -> None:
    assert "bgp_local_pref" not in speaker_config(SpeakerState("10.9.0.1", (EDGE,)))
    assert "bgp_local_pref = 200" in speaker_config(SpeakerState("10.9.0.1", (VARIANTS["one system"],)))


@pytest.mark.parametrize("text", ['x"; import all; #', "back\\slash", "line\nbreak", "", "x" * 81, "ümlaut"])
def test_a_password_that_would_become_configuration_is_refused(text: str) -> None:
    assert not is_password(text)
    if text:
        with pytest.raises(ValueError, match="characters that BIRD cannot read"):
            speaker_config(SpeakerState("10.9.0.1", (replace(EDGE, password=text),)))


def test_reports_name_state_error_and_routes_of_known_sessions() -> None:
    assert read_reports(SAID.splitlines(), [EDGE, replace(EDGE, name="far")]) == {
        "edge.example": SessionReport("Established", "", 4, frozenset()),
        "far": SessionReport("Active", "Socket: Connection refused"),
    }
    routes = ["Table announced4:", "192.0.2.11/32        unreachable [kernel4 19:10:27.924] * (10)", ""]
    assert read_routes([*routes, "2001:db8::10/128     unreachable"]) == {"192.0.2.11", "2001:db8::10"}
