"""The context of a local server in a user's kubeconfig: added, renewed and removed, without any other change."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tarmac.client.errors import BadKubeconfig
from tarmac.client.kubeconfigmerge import has_context, merged, without

OWN = """
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: admin, user: {token: secret}}]
contexts: [{name: admin@local, context: {cluster: local, user: admin, namespace: default}}]
current-context: admin@local
"""
WORK = """
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters: [{name: work, cluster: {server: "https://work"}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: work, context: {cluster: work, user: me}}]
current-context: work
"""


def read(text: str) -> Any:
    return yaml.safe_load(text)


def test_an_empty_file_becomes_a_kubeconfig_of_the_server() -> None:
    text, name = merged("", OWN, "/data")
    found = read(text)
    assert (name, found["current-context"], found["kind"]) == ("tarmac", "tarmac", "Config")
    assert found["clusters"] == [{"name": "tarmac", "cluster": {"server": "https://127.0.0.1:6443"}}]
    assert found["contexts"][0]["context"]["namespace"] == "default"
    assert has_context(text, "/data")
    assert not has_context(text, "/other")


def test_other_entries_stay_and_come_back_as_the_current_ones() -> None:
    text, _ = merged(WORK, OWN, "/data")
    assert {each["name"] for each in read(text)["users"]} == {"me", "tarmac"}
    assert read(text)["preferences"] == {"colors": True}
    left = without(text, "/data")
    assert left is not None
    assert read(left) == read(WORK)


def test_a_second_start_renews_its_entries_and_keeps_the_context_from_before() -> None:
    text, _ = merged(WORK, OWN, "/data")
    again, name = merged(text, OWN.replace("secret", "newer"), "/data")
    assert name == "tarmac"
    assert [each["user"] for each in read(again)["users"]] == [{"token": "t"}, {"token": "newer"}]
    assert read(without(again, "/data") or "")["current-context"] == "work"


def test_a_foreign_entry_of_the_same_name_and_another_server_are_not_replaced() -> None:
    foreign = WORK.replace("work", "tarmac")
    text, name = merged(foreign, OWN, "/data")
    assert name == "tarmac-2"
    text, name = merged(text, OWN, "/other")
    assert name == "tarmac-3"
    left = without(text, "/data")
    assert left is not None
    assert {each["name"] for each in read(left)["contexts"]} == {"tarmac", "tarmac-3"}
    assert read(left)["current-context"] == "tarmac-3"


def test_a_context_that_the_user_chose_meanwhile_stays_the_current_one() -> None:
    text, _ = merged(WORK, OWN, "/data")
    chosen = text.replace("current-context: tarmac", "current-context: work")
    assert read(without(chosen, "/data") or "")["current-context"] == "work"


def test_nothing_is_left_of_a_file_that_had_nothing_else() -> None:
    assert without(merged("", OWN, "/data")[0], "/data") == ""


def test_a_file_without_the_server_needs_no_change() -> None:
    assert without(WORK, "/data") is None
    assert without("", "/data") is None


@pytest.mark.parametrize("text", ["[1]", "contexts: 3", "contexts: [a]", "a: [", "clusters: {a: b}"])
def test_files_that_are_no_kubeconfig_are_refused(text: str) -> None:
    with pytest.raises(BadKubeconfig, match="not a kubeconfig"):
        merged(text, OWN, "/data")
