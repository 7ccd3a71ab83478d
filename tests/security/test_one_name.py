"""A certificate has one name, for every reader: a request or a certificate with two is anonymous."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tarmac.agent.http.auth import certified
from tarmac.agent.http.kubeletanswers import HttpError
from tarmac.http.subjects import alternative_names, load_request, subject_of
from tarmac.server.security.certificates.issuing import KeyPair, private_pem
from tests.security.wire import CLIENT, KEY, KUBELET_CLIENT, Wire, csr, csr_of, serving, signing_request, subject

CN, ORG = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME
_YEAR = timedelta(days=365)
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NODES = (ORG, "system:nodes")
TWO_NAMES = [
    subject(NODES, (CN, "system:node:n1"), (CN, "system:admin")),
    subject(NODES, (CN, "system:admin"), (CN, "system:node:n1")),
    subject(NODES, [(CN, "system:node:n1"), (CN, "system:admin")]),
    subject(NODES, (CN, "system:node:n1"), (CN, "system:node:n1")),
    subject(NODES),
    subject(NODES, (CN, "system:node:n1\x00.example")),
]


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        yield running


@pytest.mark.parametrize("signer", [KUBELET_CLIENT, CLIENT])
async def test_a_node_cannot_become_another_user_by_a_second_name(wire: Wire, signer: str) -> None:
    for name in TWO_NAMES:
        answer = await wire.node("n1").post(REQUESTS, signing_request(csr_of(name), signer))
        assert answer.status == 403, name
        assert "common name" in answer.message


async def test_a_bootstrap_token_cannot_become_another_user_by_a_second_name(wire: Wire) -> None:
    joiner = wire.attacker(token=await wire.token())
    for name in TWO_NAMES:
        assert (await joiner.post(REQUESTS, signing_request(csr_of(name)))).status == 403
    assert (await joiner.post(REQUESTS, signing_request(csr("system:node:n1", "system:nodes")))).status == 201
    status = await wire.decided("wanted")
    assert [each["type"] for each in status["conditions"]] == ["Approved"]


async def test_the_authority_signs_no_second_name(wire: Wire) -> None:
    for name in TWO_NAMES:
        with pytest.raises(ValueError, match="common name"):
            wire.pki.sign_request(csr_of(name), ["client auth"], 3600)


def certificate_with(wire: Wire, name: x509.Name) -> KeyPair:
    """An earlier version, or a careless authority, could have signed it."""
    usages, now = ["digital signature", "client auth"], wire.admin.clock.now()
    signed = wire.pki.authority._sign(name, KEY.public_key(), usages, None, now, _YEAR)  # pyright: ignore[reportPrivateUsage]
    return KeyPair(signed, private_pem(KEY))


async def test_a_certificate_with_two_names_is_refused_by_server_and_agents(wire: Wire) -> None:
    for name in TWO_NAMES:
        pair = certificate_with(wire, name)
        answer = await wire.attacker(pair).get("/api/v1/nodes/n1")
        assert (answer.status, answer.body["reason"]) == (401, "Unauthorized")
        assert "common name" in answer.message
        with pytest.raises(HttpError, match="common name"):
            certified(x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER))


async def test_certificates_contain_only_the_parsed_subject(wire: Wire) -> None:
    """Unknown attributes do not get into a certificate."""
    asked = subject(NODES, (NameOID.ORGANIZATIONAL_UNIT_NAME, "x"), (NameOID.EMAIL_ADDRESS, "a@b"), (CN, "jane"))
    signed = wire.pki.sign_request(csr_of(asked, x509.DNSName("a.example")), ["client auth"], 3600)
    certificate = x509.load_pem_x509_certificate(signed)
    assert certificate.subject.rfc4514_string() == "CN=jane,O=system:nodes"
    assert alternative_names(certificate).hosts == {"a.example"}


def test_several_organisations_in_one_relative_name_are_several_groups() -> None:
    """Go writes them like this."""
    found = subject_of(load_request(csr_of(subject([(ORG, "a"), (ORG, "b")], (CN, "jane")))))
    assert (found.common_name, set(found.organisations)) == ("jane", {"a", "b"})


@pytest.mark.parametrize(
    "name",
    [
        x509.OtherName(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"),
        x509.DirectoryName(subject((CN, "kubernetes"))),
        x509.RegisteredID(x509.ObjectIdentifier("1.2.3.4")),
        x509.IPAddress(ip_network("10.0.0.0/8")),
    ],
)
async def test_alternative_names_that_nobody_checks_are_refused(wire: Wire, name: x509.GeneralName) -> None:
    pem = csr_of(subject(NODES, (CN, "system:node:n1")), name)
    answer = await wire.node("n1").post(REQUESTS, signing_request(pem))
    assert answer.status == 403
    assert "subjectAltName" in answer.message
    with pytest.raises(ValueError, match="subjectAltName"):
        wire.pki.sign_request(pem, ["client auth"], 3600)
