"""The command line of our own verbs: kubectl's syntax, and errors that name the right form."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tarmac.apps.commands import COMMANDS, parser
from tarmac.apps.main import main
from tarmac.cli.command import CommandGroup
from tarmac.cli.verbs.manifests import BadManifest, read_manifests
from tarmac.cli.verbs.objectnames import BadObject, parse_object
from tarmac.client.errors import BadKubeconfig
from tarmac.client.kubeconfig import load


@pytest.mark.parametrize(
    ("words", "plural"),
    [
        (["workload/web"], "workloads"),
        (["workload", "web"], "workloads"),
        (["wl/web"], "workloads"),
        (["Workloads/web"], "workloads"),
        (["workloads.compute.datumapis.com/web"], "workloads"),
        (["workloads.v1alpha.compute.datumapis.com/web"], "workloads"),
        (["wd/web"], "workloaddeployments"),
        (["inst/web"], "instances"),
        (["po/web"], "pods"),
    ],
)
def test_objects_are_written_as_for_kubectl(words: list[str], plural: str) -> None:
    target, name = parse_object(words)
    assert (target.plural, name) == (plural, "web")


@pytest.mark.parametrize("words", [["web"], ["workload/"], ["configmap/a"], ["workload/a/b"], ["workloads.apps/web"]])
def test_kinds_without_explanations_are_refused_by_name(words: list[str]) -> None:
    with pytest.raises(BadObject):
        parse_object(words)


def test_a_rollout_needs_no_kind_and_takes_no_other() -> None:
    assert parse_object(["web"], "workload")[1] == "web"
    with pytest.raises(BadObject, match="only a workload has"):
        parse_object(["pod/web"], "workload")


def test_flags_are_those_of_kubectl() -> None:
    options = parser().parse_args(["rollout", "status", "workload/web", "--watch=false", "-n", "shop", "--timeout=5m"])
    assert (options.watch, options.namespace, options.timeout) == (False, "shop", 300.0)
    options = parser().parse_args(["rollout", "status", "-w", "web"])
    assert (options.watch, options.object) == (True, ["web"])
    options = parser().parse_args(["rollout", "undo", "web", "--to-revision=3", "--dry-run=server"])
    assert (options.to_revision, options.dry_run) == (3, True)
    options = parser().parse_args(["plan", "-f", "x.yaml", "--without", "LHR", "--without", "SEA", "-o", "json"])
    assert (options.without, options.output) == (["LHR", "SEA"], "json")


def test_a_manifest_may_hold_several_objects_and_lists(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text("kind: A\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n---\n")
    assert [obj["kind"] for obj in read_manifests(str(file))] == ["A", "B", "C"]


@pytest.mark.parametrize("text", ["", "- a", "kind: ''", "a: {", "{}"])
def test_a_file_without_objects_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(BadManifest):
        read_manifests(str(file))


def test_without_a_server_the_exit_code_says_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "workload/web", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_a_wrong_command_line_exits_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan"])
    assert ended.value.code == 2
    assert "-f" in capsys.readouterr().err


def test_the_command_line_without_words_lists_every_command_by_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert [line for line in printed.splitlines() if line.endswith(":")] == [f"{group}:" for group in CommandGroup]
    listed = re.findall(r"^  (\S+) ", printed, re.MULTILINE)
    assert listed == [each.name for each in COMMANDS]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("wyh", "did you mean why?"),
        ("dashbord", "did you mean dashboard?"),
        ("rolout", "did you mean rollout?"),
        ("qqqqqq", "`tarmac --help` lists the commands"),
        ("x" * 1_000_000, "`tarmac --help` lists the commands"),
    ],
)
def test_an_unknown_command_is_rejected_with_similar_names(
    name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"error: {name}: unknown command; {hint}\n"


def test_verbs_use_the_local_server_when_there_is_no_other_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = tmp_path / "tarmac" / "kubeconfig"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(BadKubeconfig, match="`tarmac up` starts a local server"):
        load(local=local)
    local.parent.mkdir()
    local.write_text(_kubeconfig("https://127.0.0.1:1"))
    assert load(local=local).http.url == "https://127.0.0.1:1"
    home = tmp_path / ".kube" / "config"
    home.parent.mkdir()
    home.write_text(_kubeconfig("https://127.0.0.1:2"))
    assert load(local=local).http.url == "https://127.0.0.1:2"


def _kubeconfig(url: str) -> str:
    return json.dumps(
        {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": url}}],
        }
    )
