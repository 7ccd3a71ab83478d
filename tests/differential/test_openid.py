"""Tokens of an OpenID Connect issuer: ours accepts and rejects the same ones as kube-apiserver, for the same user."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.differential.conftest import Pair
from tests.differential.servers import Server
from tests.support.openid import OTHER_RSA_KEY, FakeIssuer, fake_issuer
from tests.support.openidcases import CASES, ELLIPTIC, EMAIL_CASES, Case, flags
from tests.support.peer import running_peer
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.timeout(180)]

Trusting = tuple[FakeIssuer, Pair]


@contextmanager
def trusting(folder: Path, claim: str) -> Generator[Trusting]:
    """Both servers, which trust one issuer under the same flags; `claim` is the name."""
    with fake_issuer(folder) as issuer:
        issuer.keys.update(ELLIPTIC)
        told = flags(issuer, str(folder / "ca.crt"), claim)
        with running_peer(flags=told) as peer, TarmacProcess(folder / "data", "--controllers=-*", *told) as tarmac:
            ca = (tarmac.data_dir / "pki" / "ca.crt").read_text()
            real = Server("kube-apiserver", peer.url, peer.ca, token=peer.token)
            ours = Server("tarmac", tarmac.url, ca, tarmac.client_context())
            _wait_for_keys(real, issuer)
            yield issuer, Pair(real, ours)


@pytest.fixture(scope="module")
def by_subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusting]:
    with trusting(tmp_path_factory.mktemp("issuer"), "sub") as found:
        yield found


@pytest.fixture(scope="module")
def by_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusting]:
    with trusting(tmp_path_factory.mktemp("issuer"), "email") as found:
        yield found


def _wait_for_keys(server: Server, issuer: FakeIssuer) -> None:
    """The real server fetches the issuer's keys after some time."""
    deadline = time.monotonic() + 60
    while _whoami(server, issuer.token(hd="example.com", email="j@example.com"))[0] != 201:
        assert time.monotonic() < deadline, "the real server never accepted a token"
        time.sleep(0.5)


def _whoami(server: Server, token: str) -> tuple[int, dict[str, Any]]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = server.send("POST", path, headers, json.dumps(body).encode(), False)
    return answer.status, json.loads(answer.body).get("status", {})


def _review(server: Server, token: str) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    answer = server.send("POST", path, {"Content-Type": "application/json"}, json.dumps(body).encode(), True)
    return json.loads(answer.body)["status"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_say_the_same_of_a_token(by_subject: Trusting, case: Case) -> None:
    compare(by_subject, case)


@pytest.mark.parametrize("case", EMAIL_CASES, ids=lambda case: case.name)
def test_both_say_the_same_of_an_address(by_address: Trusting, case: Case) -> None:
    compare(by_address, case)


def compare(found: Trusting, case: Case) -> None:
    issuer, pair = found
    token = case.make(issuer)
    real, ours = _whoami(pair.real, token), _whoami(pair.ours, token)
    assert ours == real if real[0] == 201 else ours[0] == real[0], case.name
    assert (real[0] == 201) == (case.user is not None), case.name
    reviewed, known = _review(pair.real, token), _review(pair.ours, token)
    assert known.get("authenticated") == reviewed.get("authenticated"), case.name
    assert known.get("user") == reviewed.get("user"), case.name


def test_both_take_a_new_key_and_refuse_when_the_issuer_is_down(by_address: Trusting) -> None:
    issuer, pair = by_address
    new = issuer.token({"kid": "new"}, OTHER_RSA_KEY, hd="example.com", email="j@example.com")
    issuer.up = False
    assert [_whoami(server, new)[0] for server in (pair.real, pair.ours)] == [401, 401]
    issuer.up = True
    issuer.keys["new"] = OTHER_RSA_KEY
    assert _whoami(pair.real, new)[0] == 201
    deadline = time.monotonic() + 15  # ours queries an issuer once in ten seconds
    while _whoami(pair.ours, new)[0] != 201:
        assert time.monotonic() < deadline
        time.sleep(0.5)
