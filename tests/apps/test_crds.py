"""`tarmac crds --rbac`: everything that controllers elsewhere need, and nothing for those that do not run."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tarmac.apps.main import main

Json = dict[str, Any]
FEW = "workloads"


def printed(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[tuple[str, str], Json]:
    assert main(["crds", *flags]) == 0
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(capsys.readouterr().out)}


def test_without_it_there_are_kinds_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert {kind for kind, _ in printed(capsys)} == {"CustomResourceDefinition"}


def test_each_role_is_bound_to_an_account_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "--rbac")
    roles = {name for kind, name in found if kind == "ClusterRole"}
    bindings = {name: each for (kind, name), each in found.items() if kind == "ClusterRoleBinding"}
    assert {each["roleRef"]["name"] for each in bindings.values()} == roles == set(bindings)
    accounts = [subject["name"] for each in bindings.values() for subject in each["subjects"]]
    assert len(set(accounts)) == len(accounts)
    assert ("ServiceAccount", "tarmac-controllers") in found


def test_disabled_controllers_get_no_rights(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, f"--rbac={FEW}")
    rules = [rule for (kind, _), each in found.items() if kind == "ClusterRole" for rule in each["rules"]]
    assert not [rule for rule in rules if "*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])]
    assert ("ClusterRole", "tarmac:controller:garbage") not in found
    (acting,) = [rule for rule in rules if rule["verbs"] == ["impersonate"]]
    assert {"tarmac-workload", "tarmac-pod-scheduler"} < set(acting["resourceNames"])
    assert "tarmac-garbage" not in acting["resourceNames"]
    follows = [
        rule for rule in found["ClusterRole", "tarmac:controllers"]["rules"] if rule["verbs"] == ["list", "watch"]
    ]
    assert not [rule for rule in follows if "certificatesigningrequests" in rule["resources"]]


def test_a_controller_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds", "--rbac=gardener"]) == 1
    assert "no such controller: gardener" in capsys.readouterr().err
