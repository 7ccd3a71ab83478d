"""A stolen node certificate reports the MTU of its underlay, which every Network of its location follows."""

from __future__ import annotations

from pathlib import Path

from tarmac.api.networking.names import ANNOTATION_UNDERLAY_MTU
from tarmac.client.targets.untyped import NODES
from tests.security.wire import serving


async def test_no_packet_size_below_what_ipv6_needs(tmp_path: Path) -> None:
    async with serving(tmp_path) as wire:
        await wire.admin.resource(NODES).create({"metadata": {"name": "n1"}})
        for stated in ("51", "0", "-1", "1389", "65536", "1e3", "", "9" * 5000, "１５００"):
            for target in ("/api/v1/nodes/n1", "/api/v1/nodes/n1/status"):
                answer = await wire.node("n1").patch(
                    target, {"metadata": {"annotations": {ANNOTATION_UNDERLAY_MTU: stated}}}
                )
                assert (answer.status, ANNOTATION_UNDERLAY_MTU in answer.message) == (403, True), (stated, answer)
                assert len(answer.message) < 1000
        for stated in ("1390", "1500", "65535", None):
            answer = await wire.node("n1").patch(
                "/api/v1/nodes/n1", {"metadata": {"annotations": {ANNOTATION_UNDERLAY_MTU: stated}}}
            )
            assert answer.status == 200, (stated, answer)
