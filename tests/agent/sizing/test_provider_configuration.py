"""A SizingProviderConfig is read strictly: all errors are reported together, each with its path."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.sizing.providerconfig import API_VERSION, EXEC_VERSION, KIND, SizingProvider, decode, read_config

HEAD = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
GOOD: dict[str, Any] = {"name": "gke", "apiVersion": EXEC_VERSION}


def file(*providers: Any, **more: Any) -> bytes:
    return json.dumps({"apiVersion": API_VERSION, "kind": KIND, "providers": list(providers), **more}).encode()


def refusal(body: bytes) -> str:
    with pytest.raises(BadConfig) as caught:
        decode(body)
    return str(caught.value)


def test_yaml_and_json_say_the_same() -> None:
    body = f"""{HEAD}providers:
- name: gke
  apiVersion: {EXEC_VERSION}
  args: [--max-pods, "64"]
  env:
  - {{name: A, value: "1"}}
  - {{name: A, value: "2"}}
  - name: B
- name: eks
  apiVersion: {EXEC_VERSION}
"""
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "B"}]
    same = file({**GOOD, "args": ["--max-pods", "64"], "env": env}, {**GOOD, "name": "eks"})
    assert decode(body.encode()) == decode(same)
    assert decode(same) == (
        SizingProvider("gke", EXEC_VERSION, ("--max-pods", "64"), {"A": "2", "B": ""}),
        SizingProvider("eks", EXEC_VERSION),
    )


def test_values_of_the_environment_are_not_shown() -> None:
    assert "s3cret" not in repr(decode(file({**GOOD, "env": [{"name": "TOKEN", "value": "s3cret"}]})))
    assert "s3cret" not in refusal(file({**GOOD, "env": [{"name": "TOKEN", "value": ["s3cret"]}]}))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "is neither YAML nor JSON"),
        (b"\xff\xfe\x00", "is neither YAML nor JSON"),
        (b"[" * 100_000, "neither YAML nor JSON: yaml: exceeded max depth"),
        (b"", "expected a mapping"),
        (b"- a\n", "expected a mapping"),
        (b"kind: KubeletConfiguration\n", f"apiVersion: expected {API_VERSION}, found nothing"),
        (b"kind: KubeletConfiguration\n", f'kind: expected {KIND}, found "KubeletConfiguration"'),
        (file(GOOD, provider=[]), "provider: there is no such field; there are apiVersion, kind, providers"),
        (file({**GOOD, "arg": []}), "providers[0].arg: there is no such field; there are name, apiVersion, args, env"),
        (file({**GOOD, "env": [{"name": "A", "val": "1"}]}), "providers[0].env[0].val: there is no such field"),
        (f"{HEAD}kind: {KIND}\nproviders: []\n".encode(), 'line 3: key "kind" already set in map'),
        (file(GOOD)[:-1] + b', "kind": "SizingProviderConfig"}', 'key "kind" already set in map'),
        (file(GOOD).replace(b'"gke"', b'"gke", "name": "eks"'), 'key "name" already set in map'),
        (b"a: 1\n---\nb: 2\n", "holds more than one document"),
        (b"a: 1\n---\n[", "holds more than one document"),
        (file(), "providers: expected a list with at least one provider"),
        (b"providers: gke\n", "providers: expected a list with at least one provider"),
        (file("gke"), "providers[0]: expected a mapping"),
        (file({"name": "gke"}), f"providers[0].apiVersion: expected {EXEC_VERSION}, found nothing"),
        (file({**GOOD, "apiVersion": "v1"}), f'providers[0].apiVersion: expected {EXEC_VERSION}, found "v1"'),
        (file(GOOD, GOOD), 'providers[1].name: "gke" is there twice'),
        (file({**GOOD, "args": "x"}), "providers[0].args: expected a list of texts"),
        (file({**GOOD, "args": [1]}), "providers[0].args: expected a list of texts"),
        (file({**GOOD, "args": ["a\0b"]}), "providers[0].args: expected a list of texts"),
        (file({**GOOD, "env": {}}), "providers[0].env: expected a list"),
        (file({**GOOD, "env": ["A=1"]}), "providers[0].env[0]: expected a mapping"),
    ],
)
def test_an_invalid_field_is_refused_with_its_path(body: bytes, told: str) -> None:
    assert told in refusal(body)


@pytest.mark.parametrize(
    "name", ["", None, 5, ".", "..", "../gke", "a/b", "/bin/sh", "-x", ".hidden", "a b", "a\0", "gké", "a" * 256, "a\n"]
)
def test_a_name_is_a_file_of_the_folder_and_nothing_else(name: Any) -> None:
    assert "providers[0].name: expected the name of a file in --sizing-provider-bin-dir" in refusal(
        file({**GOOD, "name": name})
    )


@pytest.mark.parametrize("variable", [{"name": ""}, {"value": "1"}, {"name": "A=B"}, {"name": "A\0"}, {"name": 1}])
def test_a_variable_that_could_smuggle_another_is_refused(variable: dict[str, Any]) -> None:
    assert "providers[0].env[0].name: expected a text" in refusal(file({**GOOD, "env": [variable]}))
    assert "providers[0].env[0].value" in refusal(file({**GOOD, "env": [{"name": "A", "value": "1\0B=2"}]}))


def test_everything_that_is_wrong_is_told_at_once() -> None:
    body = file({"name": "-", "apiVersion": "v2"}, "x", kindd=1)
    assert len(refusal(body).split("; ")) >= 4
    assert refusal(body).count("\n") == 0


def test_the_longest_name_is_taken() -> None:
    assert decode(file({**GOOD, "name": "9" + "a._-" * 63 + "zz"}))[0].name.startswith("9a")


def test_the_file_is_known_by_its_digest_and_its_path_is_in_every_refusal(tmp_path: Path) -> None:
    path = tmp_path / "sizing.json"
    path.write_bytes(file(GOOD))
    assert len(read_config(path, os.geteuid()).digest) == 64
    path.write_bytes(b"{")
    with pytest.raises(BadConfig, match=f"^--sizing-provider-config: {path}: is neither"):
        read_config(path, os.geteuid())


def test_an_unreadable_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"\n")
    for name, told in (
        ("pipe", "is not a regular file"),
        ("absent", "No such file or directory"),
        ("large", "is larger than"),
        ("", "directory|regular file"),
    ):
        with pytest.raises(BadConfig, match=f"^--sizing-provider-config: .*({told})"):
            read_config(tmp_path / name, os.geteuid())
