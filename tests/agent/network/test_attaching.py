"""Drivers without CNI request a pod's interfaces from the agent directly, with the same result as the plugin."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tarmac.agent.network.attaching import InterfaceAttacher, RulesNotApplied
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.datapath.fake import FakeDatapath
from tarmac.runtimes.interface import NotConnected, PodIdentity, WhyNotConnected

FRONT = AttachedInterface(name="front", network="shop/default", mac="02:00:00:00:00:01", addresses=["10.128.0.5/20"])
WEB = PodIdentity("shop", "web", "u-1")


def interfaces_for(annotation: str | None, uncovered: str = "") -> tuple[InterfaceAttacher, FakeDatapath]:
    datapath = FakeDatapath()
    annotations = {} if annotation is None else {ANNOTATION_INTERFACES: annotation}
    pod: JsonObject = {"metadata": {"namespace": "shop", "name": "web", "uid": "u-1", "annotations": annotations}}

    async def wait_until_applied(uid: str, interfaces: Sequence[AttachedInterface]) -> None:
        if uncovered:
            raise RulesNotApplied(uncovered)

    def find(namespace: str, name: str, uid: str) -> JsonObject | None:
        return pod if (namespace, name, uid) == ("shop", "web", "u-1") else None

    return InterfaceAttacher(datapath, find, wait_until_applied), datapath


async def test_a_sandbox_has_the_interfaces_of_its_pod_until_it_is_detached() -> None:
    interfaces, datapath = interfaces_for(encode_interfaces([FRONT]))
    assert list(await interfaces.attach("vm-1", WEB, "/run/netns/x")) == [FRONT]
    assert interfaces.attached("vm-1")
    assert datapath.sandboxes() == {"vm-1"}
    await interfaces.detach("vm-1")
    await interfaces.detach("vm-1")
    assert not interfaces.attached("vm-1")


@pytest.mark.parametrize(
    ("annotation", "uncovered", "pod", "why"),
    [
        ("[]", "", PodIdentity("shop", "web", "u-2"), WhyNotConnected.UNKNOWN_POD),
        (None, "", WEB, WhyNotConnected.NOT_YET),
        ("nonsense", "", WEB, WhyNotConnected.BAD_INTERFACES),
        (encode_interfaces([FRONT]), "no rules yet", WEB, WhyNotConnected.NOT_YET),
    ],
    ids=["another pod", "no interfaces yet", "interfaces that cannot be read", "no rules yet"],
)
async def test_nothing_is_attached_for_a_pod_that_cannot_be_connected(
    annotation: str | None, uncovered: str, pod: PodIdentity, why: WhyNotConnected
) -> None:
    interfaces, datapath = interfaces_for(annotation, uncovered)
    with pytest.raises(NotConnected) as refused:
        await interfaces.attach("vm-1", pod, "/run/netns/x")
    assert refused.value.why is why
    assert not datapath.sandboxes()
