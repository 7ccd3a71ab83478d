"""`tarmac user`: a kubeconfig that works, made with the caller's rights, and its revocation on every connection."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from tarmac.api.status import Forbidden, Unauthorized
from tarmac.apps.commands import parsed
from tarmac.apps.control_plane import Running, local_transport
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.users import user
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import CERTIFICATE_REQUESTS, CONFIG_MAPS
from tarmac.server.security.users import User
from tests.client.backends import ADMIN, our_server


class Office:
    """A running server, and a user at a terminal in a folder of their own."""

    def __init__(self, running: Running, folder: Path) -> None:
        self.running, self.folder = running, folder
        self.server = load(str(folder / "kubeconfig")).http

    async def said(self, *words: str, by: User = ADMIN) -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        client = Client(local_transport(self.running.server, by))
        code = await user(client, self.server, parsed(["user", *words]), Console(out, err))
        return code, out.getvalue() + err.getvalue()

    def person(self, file: Path) -> Client:
        return Client(HttpTransport(load(str(file)).http))


@pytest.fixture
async def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    async with our_server(tmp_path) as running:
        (tmp_path / "desk").mkdir()
        monkeypatch.chdir(tmp_path / "desk")
        yield Office(running, tmp_path)


async def whoami(client: Client) -> tuple[str, list[str]]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = json.loads((await client.call("POST", path, body=json.dumps(body).encode())).body)["status"]["userInfo"]
    return info["username"], info["groups"]


async def refused(client: Client) -> None:
    """Repeat requests until there is a response."""
    while True:
        with suppress(ClientError):  # the connection was ended
            await whoami(client)


async def test_a_person_gets_a_file_and_loses_it(office: Office) -> None:
    code, said = await office.said("create", "jane", "--group", "team-a", "--group", "team-b")
    file = Path("jane.kubeconfig")
    assert (code, said.partition(", until ")[0]) == (0, "jane.kubeconfig written: jane")
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(Path().iterdir()) == [file]
    jane = office.person(file)
    assert await whoami(jane) == ("jane", ["team-a", "team-b", "system:authenticated"])

    code, said = await office.said("create", "jane")
    assert (code, said) == (1, "error: jane.kubeconfig exists: choose another file with -o, or remove it\n")

    code, said = await office.said("revoke", "jane")
    assert (code, said) == (
        0,
        'every certificate of "jane" that was issued until now is refused; its roles stay\n',
    )
    async with asyncio.timeout(5):  # a second, on an idle machine
        with pytest.raises(Unauthorized, match='the certificate of "jane" was revoked'):
            await refused(jane)
    await jane.close()

    assert (await office.said("create", "jane", "-o", "again"))[0] == 0
    again = office.person(Path("again"))
    assert (await whoami(again))[0] == "jane"
    await again.close()


async def test_a_file_lasts_as_long_as_it_was_asked_for(office: Office) -> None:
    from cryptography import x509

    assert (await office.said("create", "jane", "--ttl", "2d"))[0] == 0
    certificate = x509.load_pem_x509_certificate((load("jane.kubeconfig").http.certificate or "").encode())
    assert abs(certificate.not_valid_after_utc.timestamp() - time.time() - 2 * 86400) < 60


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["system:jane"], 'the name "system:jane" begins with system:, which is for parts of the cluster'),
        (["jane", "--group", "system:masters"], 'the group "system:masters" begins with system:'),
        (["j" * 65], "the name must have 1 to 64 printable characters"),
        (["ja\nne"], "the name must have 1 to 64 printable characters"),
        (["team/jane"], '"team/jane.kubeconfig" is no file name: choose a file with -o'),
        (["jane", "-o", "nowhere/jane"], "nowhere is no directory"),
    ],
)
async def test_contradictory_flags_are_refused_before_any_request(office: Office, words: list[str], why: str) -> None:
    code, said = await office.said("create", *words)
    assert code == 1
    assert why in said
    assert not list(Path().iterdir())
    admin = Client(local_transport(office.running.server, ADMIN))
    assert not (await admin.resource(CERTIFICATE_REQUESTS).list()).items


async def test_names_of_parts_of_the_cluster_are_not_revoked_as_people(office: Office) -> None:
    code, said = await office.said("revoke", "system:node:dfw-0")
    assert code == 1
    assert "tarmac node remove" in said


async def test_it_takes_the_callers_own_rights(office: Office) -> None:
    """The caller may request certificates, but may not approve those of people."""
    admin = Client(local_transport(office.running.server, ADMIN))
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "asker"},
        "rules": [
            {
                "apiGroups": ["certificates.k8s.io"],
                "resources": ["certificatesigningrequests", "certificatesigningrequests/approval"],
                "verbs": ["create", "get", "update", "delete"],
            }
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "asker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "asker"},
        "subjects": [{"kind": "User", "name": "joe", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    for plural, obj in (("clusterroles", role), ("clusterrolebindings", binding)):
        await admin.call("POST", f"/apis/rbac.authorization.k8s.io/v1/{plural}", body=json.dumps(obj).encode())
    joe = User("joe", groups=("system:authenticated",))
    with pytest.raises(Forbidden, match="approve"):
        await office.said("create", "jane", by=joe)
    assert not list(Path().iterdir())
    assert not (await admin.resource(CERTIFICATE_REQUESTS).list()).items, "no request is left"
    with pytest.raises(Forbidden):
        await office.said("revoke", "jane", by=joe)
    assert all(
        each["metadata"]["name"] != "tarmac-revoked"
        for each in (await admin.resource(CONFIG_MAPS).list("kube-system")).items
    )


@pytest.mark.parametrize("ttl", ["5m", "366d", "0", "soon", "-1d", "1e9d"])
def test_a_certificate_lasts_ten_minutes_at_least_and_a_year_at_most(
    ttl: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(["user", "create", "jane", f"--ttl={ttl}"])
    assert ended.value.code == 2
    assert "--ttl" in capsys.readouterr().err
