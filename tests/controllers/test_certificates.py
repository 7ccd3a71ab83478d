"""Nodes get the certificates they may have, and no other; old requests disappear."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tarmac.controllers.certificates.requests import CLIENT, KUBELET_CLIENT, KUBELET_SERVING
from tarmac.controllers.manager import ControllerManager
from tests.controllers.harness import Stage, playing

Json = dict[str, Any]
CLIENT_USAGES = ["digital signature", "client auth"]
SERVING_USAGES = ["digital signature", "server auth"]


def sign(pem: str, usages: list[str], expiration: int | None) -> str:
    return f"certificate for {usages} {expiration}"


@asynccontextmanager
async def managing() -> AsyncGenerator[Stage]:
    stage = Stage()
    async with playing(stage, ControllerManager(stage.client, "certificates", sign=sign).run):
        yield stage


def csr_pem(common_name: str, organisation: str = "system:nodes", *alternative: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    subject.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if alternative:
        names = [x509.IPAddress(ip_address(each)) if each[0].isdigit() else x509.DNSName(each) for each in alternative]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def ask(stage: Stage, pem: str, user: str, signer: str = KUBELET_CLIENT, usages: list[str] | None = None) -> None:
    stage.server.put(
        "certificatesigningrequests",
        "csr",
        spec={
            "request": base64.b64encode(pem.encode()).decode(),
            "signerName": signer,
            "username": user,
            "groups": ["system:authenticated"],
            "usages": usages or CLIENT_USAGES,
            "expirationSeconds": 3600,
        },
    )


def outcome(stage: Stage) -> tuple[list[str], str]:
    csr = stage.server.find("certificatesigningrequests", "csr")
    assert csr is not None
    status = csr.get("status", {})
    certificate = base64.b64decode(status.get("certificate", "")).decode()
    return [each["type"] for each in status.get("conditions", [])], certificate


async def test_a_node_renews_its_own_certificate() -> None:
    async with managing() as stage:
        stage.server.allow_access = lambda spec: spec["resourceAttributes"]["subresource"] == "selfnodeclient"
        ask(stage, csr_pem("system:node:n1"), "system:node:n1")
        await stage.settle()
        assert outcome(stage) == (["Approved"], "certificate for ['client auth', 'digital signature'] 3600")


async def test_a_bootstrap_token_gets_a_certificate_for_a_new_node() -> None:
    async with managing() as stage:
        stage.server.allow_access = lambda spec: spec["resourceAttributes"]["subresource"] == "nodeclient"
        ask(stage, csr_pem("system:node:n1"), "system:bootstrap:abcdef")
        await stage.settle()
        assert outcome(stage)[0] == ["Approved"]


async def test_a_sender_without_permission_waits_for_a_human() -> None:
    async with managing() as stage:
        ask(stage, csr_pem("system:node:n1"), "system:bootstrap:abcdef")
        await stage.settle()
        assert outcome(stage) == ([], "")


@pytest.mark.parametrize(
    ("pem", "usages"),
    [
        (csr_pem("mallory"), CLIENT_USAGES),
        (csr_pem("system:node:n1", "system:masters"), CLIENT_USAGES),
        (csr_pem("system:node:n1", "system:nodes", "n1.example.com"), CLIENT_USAGES),
        (csr_pem("system:node:n1"), SERVING_USAGES),
    ],
)
async def test_a_client_request_that_is_no_nodes_is_not_approved(pem: str, usages: list[str]) -> None:
    async with managing() as stage:
        stage.server.allow_access = lambda _spec: True
        ask(stage, pem, "system:bootstrap:abcdef", usages=usages)
        await stage.settle()
        assert outcome(stage) == ([], "")


@pytest.mark.parametrize(
    ("names", "approved"),
    [(("n1", "10.0.0.1"), True), (("n1",), False), (("n1", "10.0.0.2"), False), (("kubernetes.default", "n1"), False)],
)
async def test_a_serving_certificate_names_the_nodes_addresses_and_all_of_them(
    names: tuple[str, ...], approved: bool
) -> None:
    async with managing() as stage:
        addresses = [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}]
        stage.server.put("nodes", "n1", status={"addresses": addresses})
        pem = csr_pem("system:node:n1", "system:nodes", *names)
        ask(stage, pem, "system:node:n1", KUBELET_SERVING, SERVING_USAGES)
        await stage.settle()
        assert outcome(stage)[0] == (["Approved"] if approved else [])


async def test_a_node_cannot_get_another_nodes_serving_certificate() -> None:
    async with managing() as stage:
        stage.server.put("nodes", "n1", status={"addresses": [{"type": "Hostname", "address": "n1"}]})
        pem = csr_pem("system:node:n1", "system:nodes", "n1")
        ask(stage, pem, "system:node:n2", KUBELET_SERVING, SERVING_USAGES)
        await stage.settle()
        assert outcome(stage) == ([], "")


async def test_a_manually_approved_request_is_signed() -> None:
    async with managing() as stage:
        ask(stage, csr_pem("jane", "devs"), "jane", CLIENT)
        await stage.settle()
        assert outcome(stage) == ([], "")
        stage.server.put("certificatesigningrequests", "csr", status={"conditions": [{"type": "Approved"}]})
        await stage.settle()
        assert outcome(stage)[1].startswith("certificate")


async def test_an_approved_request_its_signer_does_not_give_fails() -> None:
    async with managing() as stage:
        ask(stage, csr_pem("jane", "devs"), "jane", CLIENT, SERVING_USAGES)
        stage.server.put("certificatesigningrequests", "csr", status={"conditions": [{"type": "Approved"}]})
        await stage.settle()
        csr = stage.server.find("certificatesigningrequests", "csr")
        assert csr is not None
        failed = csr["status"]["conditions"][-1]
        assert (failed["type"], failed["reason"]) == ("Failed", "SignerValidationFailure")
        assert failed["message"] == "invalid usage for client certificate: server auth"


async def test_a_request_nobody_decides_goes_after_a_day_and_a_decided_one_after_an_hour() -> None:
    async with managing() as stage:
        ask(stage, csr_pem("jane", "devs"), "jane", CLIENT)
        await stage.settle(23 * 3600)
        assert stage.server.find("certificatesigningrequests", "csr")
        await stage.settle(2 * 3600)
        assert stage.server.find("certificatesigningrequests", "csr") is None
        stage.server.allow_access = lambda _spec: True
        ask(stage, csr_pem("system:node:n1"), "system:node:n1")
        await stage.settle()
        assert outcome(stage)[0] == ["Approved"]
        await stage.settle(3600)
        assert stage.server.find("certificatesigningrequests", "csr") is None


async def test_an_unreadable_request_is_given_up_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with managing() as stage:
        ask(stage, "not a request", "system:node:n1")
        await stage.settle(600)
        assert capsys.readouterr().err.count("reconcile failed terminally") == 1
