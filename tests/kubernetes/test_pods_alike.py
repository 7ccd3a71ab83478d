"""Pods of one template are validated once; differing parts are validated again."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.kubernetes.core.pods import validation
from tarmac.api.kubernetes.core.pods.validationcache import PassedSpecs, text_of
from tests.kubernetes.rules import container, pod, refused

NOT_FOUND = ['spec.containers[0].volumeMounts[0].name: Not found: "{}"']


def _with_token(volume: str, mounted: str) -> dict[str, Any]:
    mount = {"name": mounted, "mountPath": "/token"}
    return pod(container(volumeMounts=[mount]), volumes=[{"name": volume, "emptyDir": {}}])


def test_replicas_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = validation._validate_spec
    monkeypatch.setattr(validation, "_validate_spec", lambda *about: (looked.append(about[1]), real(*about)))
    for token in ("kube-api-access-aaaaa", "kube-api-access-bbbbb", "kube-api-access-ccccc"):
        one = _with_token(token, token)
        one["spec"]["hostname"] = "replica-of-this-test"
        assert refused("Pod", one) == []
    assert len(looked) == 1


def test_a_token_that_is_not_there_is_missed_in_a_replica() -> None:
    assert refused("Pod", _with_token("kube-api-access-aaaaa", "kube-api-access-aaaaa")) == []
    for mounted in ("kube-api-access-bbbbb", "kube-api-access-", "kube-api-access-aaaaaa", "\ufffd"):
        assert refused("Pod", _with_token("kube-api-access-aaaaa", mounted)) == [NOT_FOUND[0].format(mounted)]


def test_a_refused_spec_is_refused_again() -> None:
    bad = pod({"name": "A_b", "image": "x"})
    first = refused("Pod", bad)
    assert first
    assert refused("Pod", pod({"name": "A_b", "image": "x"})) == first


def test_a_volume_that_is_named_after_its_pod_is_looked_at_for_each() -> None:
    assert text_of({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}) is None


def test_long_and_unspeakable_specs_are_not_remembered() -> None:
    assert text_of({"containers": [{"args": ["x" * 10_000]}]}) is None
    assert text_of({"hostname": "\ud800"}) is None


def test_only_the_specs_asked_for_last_are_kept() -> None:
    known = PassedSpecs()
    for number in range(200):
        known.add(b"%d" % number)
        assert known.has(b"0")  # requested all the time
    assert known.has(b"199")
    assert not known.has(b"100")
    assert not known.has(None)
