"""External services between cities are encrypted, or refused if encryption is impossible."""

from __future__ import annotations

import os
import signal

import pytest

from tests.egress.encrypting import encrypting, sockets
from tests.egress.planet import ORDERS, SERVICE, Outside, Stream
from tests.node.planet import eventually
from tests.support.wire import Wire, udp_port

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

PLAIN, ENCRYPTED = 4800, 4802


@pytest.fixture(scope="module", autouse=True)
def example(outside: Outside) -> None:
    outside.use("externalservice.yaml", SERVICE)


def from_afar(outside: Outside) -> tuple[str, str]:
    """Yield a pod that a gateway in another city presents as `ORDERS`, and the gateway."""
    (pod,) = (each for each in outside.pods("orders") if "-dfw-" in each)
    if outside.gateway(ORDERS) == "dfw-0":
        outside.planet.kubectl("cordon", "dfw-0")
        eventually(lambda: outside.gateway(ORDERS) not in ("", "dfw-0"), what="the move")
        outside.planet.kubectl("uncordon", "dfw-0")
    return pod, outside.gateway(ORDERS)


def test_between_cities_the_wire_shows_nothing_but_wireguard_also_when_its_processes_are_killed(
    outside: Outside,
) -> None:
    pod, gateway = from_afar(outside)
    with Wire(outside.underlay, "dfw") as wire, Stream(outside, pod, outside.dialled()) as stream:
        stream.goes_on()
        for node in (gateway, "dfw-0"):
            before = encrypting(outside, node)
            os.kill(before, signal.SIGKILL)
            stream.goes_on()
            assert encrypting(outside, node) != before
        (seen,) = set(stream.said())
        assert seen.startswith(f"you are {ORDERS} port ")
        frames = wire.frames()
    assert any(b"you are" in frame for frame in frames) is False
    assert {port for port in map(udp_port, frames) if port in (PLAIN, ENCRYPTED)} == {ENCRYPTED}


def test_a_node_whose_wireguard_does_not_start_is_left_out_and_comes_back(outside: Outside) -> None:
    pod, _ = from_afar(outside)
    socket_ = sockets(outside)["dfw-0"]
    (other,) = (each for each in outside.pods("orders") if each != pod)
    socket_.unlink()
    socket_.mkdir()  # no program can listen there
    try:
        os.kill(encrypting(outside, "dfw-0"), signal.SIGKILL)
        eventually(lambda: refused(outside) == {"EncryptionUnavailable"}, what="the refusal")
        assert outside.seen(pod) == ""
        assert outside.seen(other) == ORDERS, "nodes with encryption continue"
        events = outside.planet.get("events", "--field-selector", "reason=EncryptionUnavailable")["items"]
        # The gateway's own program was killed by an earlier test, and may have taken longer than 5 s to come back.
        assert "dfw-0" in {
            each["involvedObject"]["name"] for each in events if each["involvedObject"]["kind"] == "Node"
        }
    finally:
        socket_.rmdir()
    outside.planet.wait(f"externalservice/{SERVICE}", "condition=Ready", 60)
    eventually(lambda: outside.seen(pod) == ORDERS, what="the way back")


def refused(outside: Outside) -> set[str]:
    """Return the reasons for which sources of the service, or some of their pods, are left out."""
    sources = outside.planet.get("externalservice", SERVICE)["status"]["sources"]
    return {each["reason"] for each in sources if each.get("reason")}
