"""CRI messages of the driver, where a runtime's behaviour does not show them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.cri.encode import auth_message, container_message, sandbox_message
from tarmac.runtimes.cri.handlers import default_handler, handlers
from tarmac.runtimes.interface import (
    ContainerConfig,
    Credentials,
    Handler,
    LinuxSecurity,
    PodIdentity,
    PortMapping,
    SandboxConfig,
)

_SANDBOX = SandboxConfig(PodIdentity("ns", "name", "uid", 2), "host", "/logs", "/group")
_CONTAINER = ContainerConfig("main", 0, "sha256:1", "busybox:1")


@pytest.mark.parametrize(
    ("signal", "number"),
    [("", 0), ("SIGABRT", 1), ("SIGTERM", 23), ("SIGRTMIN+3", 38), ("SIGRTMAX-14", 51), ("SIGRTMAX", 65)],
)
def test_a_stop_signal_has_its_number(signal: str, number: int) -> None:
    config = ContainerConfig("main", 0, "sha256:1", "busybox:1", stop_signal=signal)
    assert container_message(config, "id", _SANDBOX).stop_signal == number


def test_identity_wins_over_labels_of_the_same_name() -> None:
    pretender = SandboxConfig(_SANDBOX.pod, "", "", "", labels={"io.kubernetes.pod.uid": "another", "app": "x"})
    assert dict(sandbox_message(pretender).labels) == {
        "app": "x",
        "io.kubernetes.pod.name": "name",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": "uid",
    }


def test_a_pod_in_the_hosts_network_has_the_hosts_name() -> None:
    on_host = SandboxConfig(_SANDBOX.pod, "host", "", "", security=LinuxSecurity(host_network=True, host_pid=True))
    message = sandbox_message(on_host)
    assert message.hostname == ""
    options = message.linux.security_context.namespace_options
    assert (options.network, options.pid, options.ipc) == (pb.NODE, pb.NODE, pb.POD)


def test_user_zero_is_not_no_user() -> None:
    root = LinuxSecurity(user=0)
    config = ContainerConfig("main", 0, "i", "i", security=root)
    assert container_message(config, "id", _SANDBOX).linux.security_context.HasField("run_as_user")
    nobody = container_message(_CONTAINER, "id", _SANDBOX).linux.security_context
    assert not nobody.HasField("run_as_user")


def test_ports_keep_their_protocol() -> None:
    config = SandboxConfig(_SANDBOX.pod, "", "", "", ports=(PortMapping("UDP", 53, 5353, "127.0.0.1"),))
    [port] = sandbox_message(config).port_mappings
    assert (port.protocol, port.container_port, port.host_port) == (pb.PortMapping.UDP, 53, 5353)


def test_credentials_are_sent_and_never_shown() -> None:
    credentials = Credentials("me", "hunter2")
    message = auth_message(credentials)
    assert (message.username, message.password) == ("me", "hunter2")
    assert message.server_address == "", "containerd sends no credentials to a mirror when they name a server"
    assert "hunter2" not in repr(credentials)


def test_handlers_of_containerd_1_7_are_read_from_its_configuration() -> None:
    config = (
        '{"containerd":{"runtimes":{"runc":{"runtimeType":"io.containerd.runc.v2"},'
        '"gvisor":{"runtimeType":"io.containerd.runsc.v1"}}}}'
    )
    found = handlers(pb.StatusResponse(info={"config": config}))
    assert found == (Handler("gvisor", own_kernel=True), Handler("runc"))


def test_a_handler_says_whether_its_containers_can_have_devices() -> None:
    shims = {"runc": "runc.v2", "gvisor": "runsc.v1", "gvisor-nvidia": "runsc.v1", "kata": "kata.v2"}
    runtimes = {name: {"runtimeType": f"io.containerd.{shim}"} for name, shim in shims.items()}
    found = handlers(pb.StatusResponse(info={"config": json.dumps({"containerd": {"runtimes": runtimes}})}))
    assert {each.name: each.devices for each in found} == {
        "gvisor": False,
        "gvisor-nvidia": True,
        "kata": False,
        "runc": True,
    }
    assert default_handler(pb.StatusResponse()).devices


def test_devices_that_the_runtime_looks_up_are_named() -> None:
    config = replace(_CONTAINER, cdi_devices=("example.com/gpu=0", "example.com/gpu=1"))
    named = container_message(config, "id", _SANDBOX).CDI_devices
    assert [each.name for each in named] == ["example.com/gpu=0", "example.com/gpu=1"]


def test_handlers_of_containerd_2_are_listed_with_their_features() -> None:
    features = pb.RuntimeHandlerFeatures(recursive_read_only_mounts=True, user_namespaces=True)
    listed = [pb.RuntimeHandler(name="", features=features), pb.RuntimeHandler(name="runc", features=features)]
    [runc] = handlers(pb.StatusResponse(runtime_handlers=listed))
    assert runc == Handler("runc", recursive_read_only_mounts=True, user_namespaces=True)
    default = default_handler(pb.StatusResponse(runtime_handlers=listed))
    assert default == Handler("", recursive_read_only_mounts=True, user_namespaces=True)


@pytest.mark.parametrize("strict", [True, False])
def test_strict_groups_are_asked_for_the_sandbox_and_the_container(strict: bool) -> None:
    security = LinuxSecurity(supplemental_groups=(7,), strict_groups=strict)
    policy = pb.Strict if strict else pb.Merge
    sandbox = sandbox_message(replace(_SANDBOX, security=security))
    assert sandbox.linux.security_context.supplemental_groups_policy == policy
    container = container_message(replace(_CONTAINER, security=security), "id", _SANDBOX)
    assert container.linux.security_context.supplemental_groups_policy == policy


@pytest.mark.parametrize("config", ["", "nonsense", "[]", '{"containerd":7}', '{"containerd":{"runtimes":[]}}'])
def test_a_configuration_that_cannot_be_read_offers_nothing(config: str) -> None:
    assert handlers(pb.StatusResponse(info={"config": config})) == ()
