"""Kubeconfig files as kubectl reads them, and the service account of a pod."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.client.errors import BadKubeconfig
from tarmac.client.kubeconfig import in_cluster, load


def write(path: Path, **document: Any) -> Path:
    path.write_text(yaml.safe_dump(document))
    return path


def cluster(name: str, server: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": server, **rest}}


def user(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "user": rest}


def context(name: str, cluster: str, user: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "context": {"cluster": cluster, "user": user, **rest}}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_embedded_data_and_named_files_are_both_read(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("KEY")
    file = write(
        tmp_path / "config",
        **{"current-context": "c"},
        clusters=[cluster("k", "https://one", **{"certificate-authority-data": encoded("CA"), "tls-server-name": "n"})],
        users=[user("u", **{"client-certificate-data": encoded("CERT"), "client-key": "key.pem"})],
        contexts=[context("c", "k", "u", namespace="mine")],
    )
    connection = load(str(file))
    assert connection.namespace == "mine"
    http = connection.http
    assert (http.url, http.ca, http.certificate, http.key, http.server_name) == (
        "https://one",
        "CA",
        "CERT",
        "KEY",
        "n",
    )


def test_files_merge_and_the_first_to_name_something_wins(tmp_path: Path) -> None:
    first = write(
        tmp_path / "first", clusters=[cluster("k", "https://first")], users=[user("u", token="first")], contexts=[]
    )
    second = write(
        tmp_path / "second",
        **{"current-context": "c"},
        clusters=[cluster("k", "https://second")],
        users=[user("u", token="second"), user("v", tokenFile="token")],
        contexts=[context("c", "k", "u"), context("d", "k", "v")],
    )
    environment = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    assert load(environment=environment).http.url == "https://first"
    assert load(environment=environment).http.token == "first"
    assert load(context="d", environment=environment).http.token_file == str(tmp_path / "token")


def test_without_kubeconfig_the_home_file_and_then_the_pod_are_used(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    environment = {"HOME": str(home)}
    with pytest.raises(BadKubeconfig, match="no kubeconfig"):
        load(environment=environment)
    write(
        home / ".kube" / "config",
        **{"current-context": "c"},
        clusters=[cluster("k", "https://home")],
        contexts=[context("c", "k", "")],
    )
    assert load(environment=environment).http.url == "https://home"
    account = tmp_path / "account"
    account.mkdir()
    for name, text in (("ca.crt", "CA"), ("namespace", "pod-ns"), ("token", "t")):
        (account / name).write_text(text)
    pod = in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, account)
    assert (pod.http.url, pod.namespace, pod.http.token_file) == (
        "https://[fd00::1]:6443",
        "pod-ns",
        str(account / "token"),
    )


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"current-context": ""}, "no context chosen"),
        ({"current-context": "x"}, 'no context "x"'),
        ({"current-context": "c", "contexts": [context("c", "k", "u")]}, 'no cluster "k"'),
        (
            {"current-context": "c", "contexts": [context("c", "k", "")], "clusters": [cluster("k", "")]},
            "the cluster has no server",
        ),
        (
            {
                "current-context": "c",
                "contexts": [context("c", "k", "u")],
                "clusters": [cluster("k", "https://x")],
                "users": [user("u", exec={"command": "x"})],
            },
            "plug-in",
        ),
        (
            {
                "current-context": "c",
                "contexts": [context("c", "k", "")],
                "clusters": [cluster("k", "https://x", **{"certificate-authority-data": "%%%"})],
            },
            "not base64",
        ),
    ],
)
def test_unusable_kubeconfigs_name_the_problem(tmp_path: Path, document: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadKubeconfig, match=complaint):
        load(str(write(tmp_path / "config", **document)))


def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("- just\n- a list\n")
    with pytest.raises(BadKubeconfig, match="not a kubeconfig"):
        load(str(file))
    with pytest.raises(BadKubeconfig, match="missing"):
        load(str(tmp_path / "missing"))
