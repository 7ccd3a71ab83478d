"""A pod bound to the node: its sandbox, its containers, and what the API says of them."""

from __future__ import annotations

from tests.agent.pods.machine import Machine, condition, container_status, play


def test_a_bound_pod_runs_and_says_so() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        status = await machine.phase("Running")
        main = container_status(status)
        assert main["ready"] is True
        assert main["started"] is True
        assert main["restartCount"] == 0
        assert main["containerID"] == f"fake://{await machine.id()}"
        assert "running" in main["state"]
        assert status["hostIP"] == "192.0.2.1"
        assert status["podIP"] == "10.0.0.1"
        assert status["podIPs"] == [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]
        assert status["startTime"]
        assert status["qosClass"] == "BestEffort"
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"):
            assert condition(status, kind)["status"] == "True", kind
            assert condition(status, kind)["observedGeneration"] == 1
        assert [reason for reason, _ in await machine.events()] == ["Pulled", "Created", "Started"]

    play(story)
