"""A server with the flags of an OpenID Connect issuer: users authenticate over HTTPS, and a slow issuer blocks none."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.security.wire import Answer, Attacker
from tests.support.openid import FakeIssuer, fake_issuer
from tests.support.openidcases import flags
from tests.support.tarmac_process import TarmacProcess

_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@pytest.fixture
def trusting(tmp_path: Path) -> Iterator[tuple[FakeIssuer, TarmacProcess]]:
    """A slow issuer, and a server that has started nevertheless."""
    with fake_issuer(tmp_path) as issuer:
        issuer.stay_silent(600)
        told = flags(issuer, str(tmp_path / "ca.crt"))
        with TarmacProcess(tmp_path / "data", "--controllers=-*", *told) as tarmac:
            yield issuer, tarmac


def client(tarmac: TarmacProcess, token: str = "") -> Attacker:
    """A client with a token, or the administrator."""
    ca = str(tarmac.data_dir / "pki" / "ca.crt")
    context = ssl.create_default_context(cafile=ca) if token else tarmac.client_context()
    headers = (("Authorization", f"Bearer {token}"),) if token else ()
    return Attacker(int(tarmac.url.rpartition(":")[2]), context, headers)


async def whoami(asking: Attacker) -> Answer:
    return await asking.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", _REVIEW)


async def let_in(asking: Attacker) -> Answer:
    """Repeat the request until the token is accepted; on a busy machine the server may have given up on the issuer."""
    while True:
        with suppress(TimeoutError):
            answer = await whoami(asking)
            if answer.status == 201:
                return answer
        await asyncio.sleep(0.2)


@pytest.mark.timeout(120)
async def test_requests_waiting_for_the_issuer_delay_no_others(trusting: tuple[FakeIssuer, TarmacProcess]) -> None:
    issuer, tarmac = trusting
    jane = client(tarmac, issuer.token(hd="example.com", groups=["team-a"]))
    waiting = asyncio.ensure_future(let_in(jane))
    async with asyncio.timeout(30):  # each of them would wait for ten seconds, if it waited
        for _ in range(20):
            assert (await client(tarmac).get("/api/v1/namespaces")).status == 200
        assert (await whoami(client(tarmac, issuer.token(aud="other")))).status == 401
        assert (await whoami(client(tarmac, "a.b.c"))).status == 401
    assert not waiting.done()
    issuer.stay_silent(0)
    found = (await waiting).body["status"]["userInfo"]
    assert (found["username"], found["groups"]) == (f"{issuer.url}#jane", ["oidc:team-a", "system:authenticated"])
    assert (await jane.get("/api/v1/namespaces")).status == 403, "authenticated, and without a right"


def test_flags_that_make_no_sense_are_told_of_and_nothing_starts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tarmac.apps.main", "server", f"--data-dir={tmp_path / 'data'}"]
    done = subprocess.run([*command, "--oidc-issuer-url=http://a.example"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "belong together" in done.stderr
    assert "must be https" in done.stderr
    assert not (tmp_path / "data" / "pki").exists()
