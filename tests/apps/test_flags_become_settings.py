"""Every flag reaches the setting that it names, and its default is the default of the setting."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.agentconfig import Flags
from tarmac.apps import agent, layout
from tarmac.apps.commands import COMMANDS, parser
from tarmac.apps.controllersettings import gates_of, settings_of
from tarmac.controllers.context import Settings

OF_CONTROLLERS = (
    "--node-monitor-grace-period=7s",
    "--metrics-url=http://prometheus.example",
    "--autoscaler-sync-period=8s",
    "--scheduler-names=mine",
    "--feature-gates=QOSResources=true,WayIn=true",
)
OF_AGENT = {
    "node_name": "--node-name=n",
    "kubeconfig": "--kubeconfig=k",
    "bootstrap_kubeconfig": "--bootstrap-kubeconfig=b",
    "root_dir": "--root-dir=r",
    "run_dir": "--run-dir=s",
    "pod_logs_dir": "--pod-logs-dir=l",
    "location": "--location=dfw",
    "network": "--network=cni",
    "cni_bin_dir": "--cni-bin-dir=c",
    "cni_conf_dir": "--cni-conf-dir=d",
    "device_plugin_dir": "--device-plugin-dir=/p",
    "nvidia": "--nvidia=off",
    "nvidia_names": "--nvidia-names=h200=big",
    "machine_image_dir": "--machine-image-dir=/i",
    "encrypt_between_cities": "--encrypt-between-cities=off",
    "drain_announcements": "--drain-announcements=7s",
    "ignore_unsupported_policies": "--ignore-unsupported-policies",
    "tenant_image_networks": "--tenant-image-networks=198.51.100.0/24",
    "tenant_image_denied_networks": "--tenant-image-denied-networks=203.0.113.0/24",
    "registry_hosts_dir": "--registry-hosts-dir=/registries",
    "recording_days": "--recording-days=7",
    "recording_bytes": "--recording-bytes=1048576",
    "node_labels": "--node-labels=a=b",
    "node_ips": "--node-ip=192.0.2.1,2001:db8::1",
    "runtime_endpoint": "--container-runtime-endpoint=unix:///e",
    "cgroup_root": "--cgroup-root=/g",
    "oversubscription": "--cpu-over-subscription-capacity=1.5",
    "system_reserved": "--system-reserved=cpu=1",
    "kube_reserved": "--kube-reserved=memory=1Gi",
    "reserved_cpus": "--reserved-cpus=0",
    "cpu_manager_policy": "--cpu-manager-policy=static",
    "sizing_provider_config": "--sizing-provider-config=/s",
    "sizing_provider_bin_dir": "--sizing-provider-bin-dir=/b",
    "feature_gates": "--feature-gates=A=true,B=FALSE",
}


def parsed(*arguments: str) -> Any:
    return parser().parse_args(arguments)


def modules_of(run: object) -> Iterator[tuple[str, str]]:
    """Yield the modules that a command loads, each with the function that it calls there."""
    if isinstance(run, partial):
        for each in run.args:
            if isinstance(each, dict):
                yield from (found for inner in each.values() for found in modules_of(inner))
            elif each.startswith("tarmac."):
                yield each, "run" if each.startswith("tarmac.cli.") else "main"


def test_every_command_loads_a_module_that_exists() -> None:
    (commands,) = (action for action in parser()._actions if action.dest == "command")
    assert commands.choices is not None
    assert list(commands.choices) == [each.name for each in COMMANDS]
    loaded = {each.name: list(modules_of(each.run)) for each in COMMANDS}
    assert [name for name, found in loaded.items() if not found] == ["why", "join"]  # functions choose the module
    for module, function in (each for found in loaded.values() for each in found):
        assert callable(getattr(import_module(module), function)), module


@pytest.mark.parametrize("command", ["up", "server", "controllers"])
def test_flags_of_controllers(command: str) -> None:
    usual, options = parsed(command), parsed(command, *OF_CONTROLLERS)
    assert settings_of(usual, gates_of(usual, "controllers")) == Settings(), "the defaults are the controllers' own"
    told = settings_of(options, gates_of(options, "controllers"))
    assert told == Settings(7.0, "http://prometheus.example", 8.0, ("mine",), class_resources=True, way_in=True)
    assert {
        each.name for each in fields(Settings) if getattr(told, each.name) == getattr(Settings(), each.name)
    } == set()


def test_flags_of_an_agent() -> None:
    assert {*OF_AGENT, "unknown"} == {each.name for each in fields(Flags)}, "one flag for each field"
    told = agent._flags(parsed("agent", *OF_AGENT.values()))
    assert (told.node_name, told.network, told.node_ips) == ("n", "cni", ("192.0.2.1", "2001:db8::1"))
    assert (told.node_labels, told.feature_gates) == ({"a": "b"}, {"A": True, "B": False})
    assert (told.kubeconfig, told.runtime_endpoint) == (Path("k"), "unix:///e")
    usual = agent._flags(parsed("agent", "--kubeconfig=k"))
    unheard = [each.name for each in fields(Flags) if getattr(told, each.name) == getattr(usual, each.name)]
    assert unheard == ["kubeconfig", "unknown"], "the same in both"


def test_absent_flags_keep_the_defaults_of_the_parts() -> None:
    usual = agent._flags(parsed("agent", "--kubeconfig=k"))
    for each in fields(Flags):
        if each.default is not MISSING:
            assert getattr(usual, each.name) == each.default, each.name


@pytest.mark.parametrize(
    "wrong",
    [
        ["agent", "--node-labels=a"],
        ["agent", "--feature-gates=A=maybe"],
        ["agent", "--node-ip=300.0.0.1"],
        ["agent", "--network=host"],
        ["controllers", "--leader-elect=perhaps"],
        ["server", "--node-monitor-grace-period=0s"],
        ["server", "--autoscaler-sync-period=soon"],
        ["server", "--listen=:6443"],
        ["server", "--listen=127.0.0.1:65536"],
        ["up", "--feature-gates=ClassResources"],
        ["up", "--cities=PARIS"],
        ["up", "--cities=,"],
        ["up", "--sim-nodes=-1"],
        ["up", "--registry=0"],
        ["sim", "--seeds=5-1"],
        ["store"],
    ],
    ids=" ".join,
)
def test_a_flag_that_makes_no_sense_is_refused_with_its_name(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parsed(*wrong)
    assert refused.value.code == 2
    assert (wrong[-1].partition("=")[0] if len(wrong) > 1 else "ACTION") in capsys.readouterr().err


def test_a_data_directory_holds_everything_that_flags_do_not_put_elsewhere(tmp_path: Path) -> None:
    usual = layout.layout_of(parsed("server", "--data-dir", str(tmp_path)))
    assert (usual.pki, usual.encryption_key) == (tmp_path / "pki", tmp_path / "secrets.key")
    assert usual.store_url == f"sqlite://{tmp_path}/store.db"
    inside = (usual.kubeconfig, usual.controllers_kubeconfig, usual.lock, usual.audit_log)
    assert {path.parent for path in inside} == {tmp_path}
    shared = ("--store=etcd://e:2379", "--pki-dir=/p", "--encryption-key-file=/k")
    told = layout.layout_of(parsed("server", "--data-dir", str(tmp_path), *shared))
    assert (told.store_url, told.pki, told.encryption_key) == ("etcd://e:2379", Path("/p"), Path("/k"))
    assert told.kubeconfig == usual.kubeconfig


def test_a_data_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    made = layout.make_layout(parsed("server", "--data-dir", str(tmp_path / "new" / "data")))
    assert stat.S_IMODE(made.data_dir.stat().st_mode) == 0o700
    assert layout.make_layout(parsed("up", "--data-dir", str(made.data_dir))).data_dir == made.data_dir, (
        "once is enough"
    )


def test_the_home_directory_is_meant_by_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert layout.layout_of(parsed("server", "--data-dir", "~/t")).data_dir == tmp_path / "t"
