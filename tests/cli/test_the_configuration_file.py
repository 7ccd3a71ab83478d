"""The configuration file sets the same options as flags, strictly: all errors at once, with their lines. Flags win."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.apps.commands import parsed, parser
from tarmac.apps.main import main
from tarmac.cli.command import command_parsers
from tarmac.cli.configfile import BadConfigFile, fields_of, read_file

HEADER = "apiVersion: config.tarmac.dev/v1alpha1\nkind: {}\n"


def written(folder: Path, *documents: tuple[str, str]) -> Path:
    file = folder / "config.yaml"
    file.write_text("---\n".join(HEADER.format(kind) + fields for kind, fields in documents))
    return file


def findings(file: Path) -> list[str]:
    with pytest.raises(BadConfigFile) as caught:
        read_file(file, command_parsers(parser()))
    return str(caught.value).removeprefix(f"{file}:").split(f"\n{file}:")


def test_a_field_is_a_flag(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        (
            "ServerConfig",
            "listen: 0.0.0.0:7443\ntlsSan: [a.example, b.example]\ndataDir: /d\nfeatureGates: {ClassResources: true}\n"
            "nodeMonitorGracePeriod: 50s\nschedulerNames: [x, y]\nverbose: true\nlogFormat: json\n",
        ),
        ("AgentConfig", "nodeName: n1\nnodeIp: [10.0.0.1, fd00::1]\nnodeLabels: {a: b, c: d}\nkubelet: {maxPods: 7}\n"),
    )
    server = parsed(["server", "--config", str(file)])
    assert server.listen == ("0.0.0.0", 7443)
    assert server.tls_san == ["a.example", "b.example"]
    assert (server.data_dir, server.feature_gates, server.verbose) == (Path("/d"), {"ClassResources": True}, True)
    assert (server.node_monitor_grace_period, server.scheduler_names, server.log_format) == (50, ("x", "y"), "json")
    agent = parsed(["agent", "--config", str(file)])
    assert (agent.node_name, agent.node_ip, agent.node_labels) == ("n1", ("10.0.0.1", "fd00::1"), {"a": "b", "c": "d"})
    assert agent.kubelet.max_pods == 7


def test_flags_win(tmp_path: Path) -> None:
    file = written(tmp_path, ("ServerConfig", "listen: 0.0.0.0:7443\ntlsSan: [a.example]\nlogFormat: json\n"))
    options = parsed(["server", "--config", str(file), "--listen", "127.0.0.1:1", "--tls-san", "b.example"])
    assert (options.listen, options.tls_san, options.log_format) == (("127.0.0.1", 1), ["b.example"], "json")


def test_every_flag_of_both_has_a_field() -> None:
    commands = command_parsers(parser())
    assert {"listen", "tlsSan", "store", "dataDir", "pkiDir", "encryptionKeyFile"} <= fields_of(
        commands["server"]
    ).keys()
    assert {"kubeconfig", "bootstrapKubeconfig", "cgroupRoot", "cpuOverSubscriptionCapacity"} <= fields_of(
        commands["agent"]
    ).keys()
    assert not {"config", "remove", "help"} & {*fields_of(commands["agent"]), *fields_of(commands["server"])}


def test_all_mistakes_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    fields = (
        "listen: nowhere\nlisten: 0.0.0.0:1\nlogFormt: json\ntlsSan: one\nverbose: 1\nlogFormat: xml\n"
        "nodeMonitorGracePeriod:\nfeatureGates: {A: perhaps}\nschedulerNames: ['a,b']\ndataDir: {a: {b: c}}\n"
    )
    assert findings(written(tmp_path, ("ServerConfig", fields))) == [
        "3: ServerConfig.listen: 'nowhere' is not HOST:PORT, for example 127.0.0.1:6443 or [::1]:6443",
        "4: ServerConfig.listen: is there twice",
        "5: ServerConfig.logFormt: there is no such field; did you mean logFormat?",
        "6: ServerConfig.tlsSan: must be a list",
        "7: ServerConfig.verbose: must be true or false, is 1",
        "8: ServerConfig.logFormat: must be one of text, json, is xml",
        "9: ServerConfig.nodeMonitorGracePeriod: is empty; leave the field out for the default",
        "10: ServerConfig.featureGates: A=perhaps: write true or false",
        "11: ServerConfig.schedulerNames: 'a,b' has a comma in it",
        "12: ServerConfig.dataDir: must be a single value",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kubelet: {evictionHrd: {}}\n", "AgentConfig.kubelet.evictionHrd: there is no such field; did you mean"),
        ("kubelet: {port: 1, port: 2}\n", "AgentConfig.kubelet: port is there twice"),
        ("kubelet: 7\n", "AgentConfig.kubelet: must be the content of a KubeletConfiguration"),
        ("remove: true\n", "AgentConfig.remove: there is no such field"),
        ("nodeIp: [10.0.0]\n", "AgentConfig.nodeIp: '10.0.0' does not appear to be"),
        ("a: [\n", "this is no YAML"),
    ],
)
def test_mistakes_of_an_agent(tmp_path: Path, text: str, says: str) -> None:
    assert any(says in each for each in findings(written(tmp_path, ("AgentConfig", text))))


def test_a_file_has_one_document_of_each_kind_and_none_of_others(tmp_path: Path) -> None:
    found = findings(written(tmp_path, ("ServerConfig", ""), ("ServerConfig", ""), ("Other", "")))
    assert found[0] == "4: ServerConfig: there is one already; a file has one at most"
    assert "kind 'Other'; write apiVersion config.tarmac.dev/v1alpha1 and kind ServerConfig or AgentConfig" in found[1]


def test_a_wrong_file_refuses_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, ("ServerConfig", "listn: x\n"))
    for command, code, says in (("server", 2, "did you mean listen?"), ("agent", 78, "listn: there is no such field")):
        with pytest.raises(SystemExit) as ended:
            parsed([command, "--config", str(file)])
        assert ended.value.code == code
        assert says in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        parsed(["agent", "--config", str(written(tmp_path, ("ServerConfig", "")))])
    assert ended.value.code == 78
    assert "there is no AgentConfig in it" in capsys.readouterr().err


def test_an_agent_still_takes_a_kubelet_configuration(tmp_path: Path) -> None:
    file = tmp_path / "kubelet.yaml"
    file.write_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n")
    options = parsed(["agent", "--config", str(file)])
    assert (options.config, options.kubelet) == (file, None)


def test_checking_tells_mistakes_and_clashes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, ("ServerConfig", "encryptionKeyFile: /nothing\nstore: sqlite:///nowhere/store.db\n"))
    assert main(["config", "check", str(file)]) == 3
    assert capsys.readouterr().err.splitlines() == [
        f"error: {file}:1: ServerConfig.encryptionKeyFile: there is no /nothing",
        f"error: {file}:1: ServerConfig.store: store 'sqlite:///nowhere/store.db': there is no folder /nowhere",
    ]
    assert main(["config", "check", str(written(tmp_path, ("ServerConfig", "processes: 2\n")))]) == 3
    wanted = "ServerConfig.processes: more than 1 needs a store that several processes can use: etcd://"
    assert capsys.readouterr().err == f"error: {file}:1: {wanted}\n"
    assert main(["config", "check", str(written(tmp_path, ("ServerConfig", "processes: 0\n")))]) == 3
    assert "ServerConfig.processes: must be at least 1, is 0" in capsys.readouterr().err
    assert main(["config", "check", str(tmp_path / "none.yaml")]) == 3
    assert "No such file" in capsys.readouterr().err
    assert main(["config", "check", str(written(tmp_path, ("ServerConfig", "listen: 127.0.0.1:0\n")))]) == 0
    assert "is fine: ServerConfig" in capsys.readouterr().out


def test_the_version_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    from tarmac import __version__

    assert main(["version"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"tarmac {__version__}"
