"""The configuration file is read strictly; every error names the field and the accepted values."""

from __future__ import annotations

import io
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tarmac.agent.config.agentconfig import of_own_node
from tarmac.agent.config.configreader import API_VERSION, IGNORED, KIND, BadConfig, decode, read, stated
from tarmac.agent.config.configz import in_effect
from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.apps.node.partsettings import pod_settings
from tarmac.base.log import configure
from tests.agent.node.settings import agent_config

HEADER = {"apiVersion": API_VERSION, "kind": KIND}


def config(**fields: Any) -> KubeletConfiguration:
    return decode({**HEADER, **fields})


def test_an_empty_file_is_kubernetes_defaults() -> None:
    found = config()
    assert (found.port, found.max_pods, found.node_lease_duration_seconds) == (10250, 110, 40)
    assert (found.container_log_max_size, found.container_log_max_files) == (10 << 20, 5)
    assert (found.authentication.anonymous.enabled, found.authorization.mode) == (False, "Webhook")
    assert found.report_frequency == 300


def test_a_pod_has_a_limit_of_processes_unless_the_file_says_otherwise() -> None:
    assert config().pod_pids_limit == 4096
    assert config(podPidsLimit=-1).pod_pids_limit == -1


@pytest.mark.parametrize(
    ("file", "own", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"seccompDefault": False}, True, False),
        ({"seccompDefault": True}, False, True),
    ],
)
def test_system_calls_are_filtered_where_the_agent_connects_pods(
    tmp_path: Path, file: dict[str, bool], own: bool, expected: bool
) -> None:
    settled = of_own_node(agent_config(tmp_path, file), own)
    assert in_effect(settled)["seccompDefault"] is expected
    assert pod_settings(settled, own).seccomp_default is expected
    assert pod_settings(settled, own).raw_sockets is not own


def test_the_interval_of_reading_manifests_is_that_of_the_file(tmp_path: Path) -> None:
    assert pod_settings(agent_config(tmp_path, {"fileCheckFrequency": "3s"}), own_network=True).manifest_interval == 3
    assert pod_settings(agent_config(tmp_path, {}), own_network=True).manifest_interval == 20


def test_a_file_in_yaml(tmp_path: Path) -> None:
    file = tmp_path / "kubelet.yaml"
    file.write_text(
        f"apiVersion: {API_VERSION}\nkind: {KIND}\nport: 11250\nclusterDNS: [10.96.0.10]\n"
        "containerLogMaxSize: 1Mi\nevictionSoft: {memory.available: 1Gi}\n"
        "evictionSoftGracePeriod: {memory.available: 30s}\nnodeStatusUpdateFrequency: 4s\n"
        "authentication: {x509: {clientCAFile: /ca}, webhook: {cacheTTL: 1m}}\n"
        "registerWithTaints: [{key: a, effect: NoSchedule}]\ncpuOverSubscriptionCapacity: 1.5\n"
    )
    found = read(file)
    assert found.cluster_dns == ("10.96.0.10",)
    assert found.container_log_max_size == 1 << 20
    assert found.report_frequency == found.node_status_update_frequency == 4
    assert found.authentication.x509.client_ca_file == "/ca"
    assert found.authentication.webhook.cache_ttl == 60


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"evictionHrd": {}}, "evictionHrd: there is no such field; did you mean evictionHard?"),
        ({"authentication": {"webhook": {"ttl": "1s"}}}, "authentication.webhook.ttl: there is no such field"),
        ({"port": "x"}, "port: Expected `int`, got `str`"),
        ({"port": 0}, "port: 0 is not between 1 and 65535"),
        ({"podPidsLimit": -2}, "podPidsLimit: -2 makes no sense; write -1 for no limit"),
        ({"nodeStatusUpdateFrequency": "10x"}, 'nodeStatusUpdateFrequency: time: unknown unit "x" in duration "10x"'),
        ({"registerWithTaints": [{"key": "a", "effect": "No"}]}, "registerWithTaints[0].effect: Invalid enum value"),
        ({"containerLogMaxFiles": 1}, "containerLogMaxFiles: 1 is too few; write 2 or more"),
        ({"cgroupDriver": "systemd"}, "cgroupDriver: 'systemd' is not offered; write cgroupfs here"),
        ({"tlsCertFile": "/c"}, "tlsCertFile: needs tlsPrivateKeyFile"),
        ({"imageGCLowThresholdPercent": 90}, "imageGCLowThresholdPercent: 90 must be less than"),
        ({"shutdownGracePeriodCriticalPods": "1s"}, "shutdownGracePeriodCriticalPods: must not be longer"),
        ({"authentication": {"anonymous": {"enabled": True}}}, "authentication.anonymous.enabled: nobody is answered"),
        ({"authentication": {"webhook": {"enabled": False}}}, "authentication.webhook.enabled: tokens are always"),
        ({"authorization": {"mode": "AlwaysAllow"}}, "authorization.mode: Invalid enum value 'AlwaysAllow'"),
        ({"enableDebuggingHandlers": False}, "enableDebuggingHandlers: logs and commands cannot be switched off"),
        ({"crashLoopBackOff": {"maxContainerRestartPeriod": "1h"}}, "crashLoopBackOff.maxContainerRestartPeriod: must"),
        ({"podLogsDir": "logs"}, "podLogsDir: 'logs' must be an absolute path"),
    ],
)
def test_refusals_name_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfig) as refusal:
        config(**fields)
    assert message in str(refusal.value)


@pytest.mark.parametrize("document", [None, [], "x", {"kind": "Pod"}, {**HEADER, "apiVersion": "v1"}])
def test_another_document(document: object) -> None:
    with pytest.raises(BadConfig):
        decode(document)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"nothing\.yaml"):
        read(tmp_path / "nothing.yaml")


def test_a_field_of_kubelets_without_effect_is_one_warning() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    config(maxOpenFiles=5, hairpinMode="none")
    lines = stream.getvalue().splitlines()
    assert [line.rpartition("field=")[2] for line in lines] == ["hairpinMode", "maxOpenFiles"]


def test_every_field_of_a_real_kubelet_is_known() -> None:
    used = {field.encode_name for field in msgspec.structs.fields(KubeletConfiguration)}
    assert not used & IGNORED
    found = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True)
    types = Path(found.stdout.strip()) / "k8s.io/kubelet@v0.35.8/config/v1beta1/types.go"
    if found.returncode or not types.exists():
        pytest.skip("NOT RUN: the module k8s.io/kubelet v0.35.8 is not in the Go module cache")
    text = types.read_text()
    body = text[text.index("type KubeletConfiguration struct") :]
    real = {part.split('"')[0].split(",")[0] for part in body[: body.index("\n}")].split('json:"')[1:]} - {""}
    assert real - used - IGNORED == set()
    assert used - real == {"classResources", "cpuOverSubscriptionCapacity", "sizingProviderPeriod"}


@pytest.mark.parametrize(
    ("file", "flags", "message"),
    [
        ({"systemReserved": {"cpu": "-1"}}, {}, 'systemReserved: resource quantity for "cpu" cannot be negative: -1'),
        ({"reservedSystemCPUs": "0-4095"}, {}, "reservedSystemCPUs: 0-4095 is not a subset of online-cpus: 0-3"),
        ({"evictionSoft": {"memory.available": "1Gi"}}, {}, "evictionSoftGracePeriod: there is none"),
        ({}, {"oversubscription": "-2"}, "--cpu-over-subscription-capacity: '-2' must not be negative"),
        ({"cpuOverSubscriptionCapacity": "x"}, {}, "cpuOverSubscriptionCapacity: "),
        ({}, {"node_name": "Dfw_0"}, "--node-name: 'Dfw_0'"),
        ({}, {"runtime_endpoint": "tcp://x"}, "--container-runtime-endpoint: 'tcp://x' is not unix:///PATH"),
        ({}, {"node_labels": {"a b": "c"}}, "--node-labels: a b=c"),
    ],
)
def test_refusals_of_what_is_said_together(
    tmp_path: Path, file: dict[str, Any], flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadConfig) as refusal:
        agent_config(tmp_path, file, **flags)
    assert message in str(refusal.value)


def test_flags_come_before_the_file(tmp_path: Path) -> None:
    file = {"cpuOverSubscriptionCapacity": "1", "cgroupRoot": "/a", "containerRuntimeEndpoint": "unix:///a.sock"}
    said = agent_config(tmp_path, file)
    assert (said.reservations.oversubscription, said.cgroup_root, said.runtime_socket) == (1000, "/a", "/a.sock")
    told = agent_config(tmp_path, file, oversubscription="14", cgroup_root="b/c", runtime_endpoint="unix:///b.sock")
    assert (told.reservations.oversubscription, told.cgroup_root, told.runtime_socket) == (14000, "/b/c", "/b.sock")


def test_own_hard_thresholds_replace_the_defaults_unless_merged(tmp_path: Path) -> None:
    own = {"evictionHard": {"memory.available": "1Gi"}}
    assert [each.signal for each in agent_config(tmp_path, own).thresholds] == ["memory.available"]
    assert len(agent_config(tmp_path, {**own, "mergeDefaultEvictionSettings": True}).thresholds) == 5


def test_the_reference_names_every_field_that_has_an_effect() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/agent-configuration.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in row.replace("`", "").replace(",", " ").split()}
    assert documented == {field.encode_name for field in msgspec.structs.fields(KubeletConfiguration)}


def test_configz_is_a_configuration_file_with_the_same_content(tmp_path: Path) -> None:
    stated = {"containerLogMaxSize": "1Mi", "nodeStatusUpdateFrequency": "4s", "evictionHard": {"pid.available": "5%"}}
    stated |= {"mergeDefaultEvictionSettings": True, "registerWithTaints": [{"key": "a", "effect": "NoSchedule"}]}
    told = agent_config(tmp_path, stated, runtime_endpoint="unix:///run/c.sock", pod_logs_dir=Path("/logs"))
    shown = in_effect(told)
    assert shown["containerLogMaxSize"] == "1Mi"
    assert shown["streamingConnectionIdleTimeout"] == "4h0m0s"
    assert shown["containerRuntimeEndpoint"] == "unix:///run/c.sock"
    assert shown["podLogsDir"] == "/logs"
    assert shown["nodeStatusReportFrequency"] == "4s"
    assert {"pid.available", "memory.available"} < shown["evictionHard"].keys()
    assert in_effect(agent_config(tmp_path, shown)) == shown


@pytest.mark.parametrize(
    "fields",
    [
        {"topologyManagerPolicy": "single-numa-node"},
        {"memoryManagerPolicy": "Static"},
        {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_policy_that_is_not_carried_out_refuses_the_start_unless_that_is_wanted(fields: dict[str, Any]) -> None:
    kubelet = config(**fields)
    flags = Flags(node_name="n", kubeconfig=Path(), node_labels={}, feature_gates={})
    with pytest.raises(BadConfig, match=f"{next(iter(fields))}: .* --ignore-unsupported-policies"):
        stated(flags, kubelet)
    assert stated(replace(flags, ignore_unsupported_policies=True), kubelet).kubelet == kubelet


def test_policies_that_do_nothing_are_no_obstacle() -> None:
    flags = Flags(node_name="n", kubeconfig=Path(), node_labels={}, feature_gates={})
    stated(flags, config(topologyManagerPolicy="none", memoryManagerPolicy="None", reservedMemory=[]))
