"""CertificateSigningRequest: immutable once made; its status changes through `approval` and `status` only."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from tarmac.api import checks
from tarmac.api.kubernetes.changes import describe, keep
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_DECISIONS = ("Approved", "Denied")


class SigningRequestStrategy(KubernetesStrategy):
    """CertificateSigningRequest. Admission fills in the requesting user."""

    has_status = True

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "spec")
        keep(new, old, "status")

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_for_status_update(new, old)
        # approval conditions cannot change here, so the old instances are kept
        decided = {before.get("type"): before for before in _conditions(old) if before.get("type") in _DECISIONS}
        if decided and _conditions(new):
            # In a new list: parts that a patch did not touch are shared with the old object.
            conditions = [decided.get(each.get("type"), each) for each in _conditions(new)]
            new["status"] = {**new["status"], "conditions": conditions}

    def prepare_approval(self, new: JsonObject, old: JsonObject) -> None:
        """Keep everything but conditions: `approval` changes nothing else."""
        conditions = _conditions(new)
        super().prepare_for_status_update(new, old)
        new["status"] = dict(old.get("status") or {})
        if conditions:
            new["status"]["conditions"] = conditions

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj.get("spec") or {}
        _validate_request(spec.get("request"), errors)
        usages = spec.get("usages") or []
        if not usages:
            errors.required("spec.usages")
        for index, usage in enumerate(usages):
            if usage not in _USAGES:
                errors.not_supported(f"spec.usages[{index}]", usage, _USAGES)
            if usage in usages[:index]:
                errors.duplicate(f"spec.usages[{index}]", usage)
        _validate_signer(spec.get("signerName", ""), errors)
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            detail = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.invalid("spec.expirationSeconds", seconds, detail)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """Check nothing: `prepare_for_update` has restored spec and status."""

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        _validate_conditions(new, old, errors)
        for kind in _DECISIONS:
            now, before = _of_type(new, kind), _of_type(old, kind)
            if len(now) > len(before):
                errors.forbidden("status.conditions", f'updates may not add a condition of type "{kind}"')
            elif len(now) == len(before) and now != before:
                changes = describe(before, now, "")
                errors.forbidden("status.conditions", f'updates may not modify a condition of type "{kind}"\n{changes}')
        certificate, before = _certificate(new), _certificate(old)
        if certificate == before:
            return
        if problem := _certificate_problem(certificate):
            errors.invalid("status.certificate", "<certificate data>", problem)
        if before:
            errors.forbidden("status.certificate", "updates may not modify existing certificate content")

    def validate_approval(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """Validate a write through `approval`."""
        _validate_conditions(new, old, errors)

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        return {"spec.signerName": checks.mapping(obj, "spec").get("signerName", "")}


def _conditions(request: JsonObject) -> list[JsonObject]:
    return checks.objects(request, "status", "conditions")


def _of_type(request: JsonObject, kind: str) -> list[JsonObject]:
    return [condition for condition in _conditions(request) if condition.get("type") == kind]


def _certificate(request: JsonObject) -> str:
    return checks.mapping(request, "status").get("certificate", "")


def _validate_conditions(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(_conditions(new)):
        path, kind, status = f"status.conditions[{index}]", condition.get("type", ""), condition.get("status", "")
        if not kind:
            errors.required(f"{path}.type")
        allowed = ("True",) if kind in (*_DECISIONS, "Failed") else ("False", "True", "Unknown")
        checks.one_of(status, allowed, f"{path}.status", errors)
        if kind in _DECISIONS and any(other in seen for other in _DECISIONS if other != kind):
            errors.invalid("status.conditions", kind, "Approved and Denied conditions are mutually exclusive")
        if kind in seen:
            errors.duplicate(f"{path}.type", kind)
        seen.add(kind)
    for kind in (*_DECISIONS, "Failed"):
        if len(_of_type(new, kind)) < len(_of_type(old, kind)):
            errors.forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"')


def _validate_request(encoded: str | None, errors: FieldErrors) -> None:
    try:
        problem = _request_problem(base64.b64decode(encoded or ""))
    except binascii.Error as error:
        problem = str(error)
    if problem:
        errors.invalid("spec.request", encoded, problem)


def _request_problem(pem: bytes) -> str | None:
    # loaded on first use: most servers never see a signing request, and the library takes long to load
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        valid = x509.load_pem_x509_csr(pem).is_signature_valid
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:  # the last two are no ValueErrors
        return str(error)
    return None if valid else "x509: signature check failed"


def _certificate_problem(encoded: str) -> str | None:
    from cryptography import x509

    pem = base64.b64decode(encoded)
    if not pem:
        return None
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        return "must contain at least one CERTIFICATE PEM block"
    try:
        x509.load_pem_x509_certificates(pem)
    except (ValueError, x509.InvalidVersion) as error:
        return str(error)
    return None


def _validate_signer(name: str, errors: FieldErrors) -> None:
    path = "spec.signerName"
    if name == _LEGACY_SIGNER:
        errors.invalid(path, name, "the legacy signerName is not allowed via this API version")
        return
    if not name:
        errors.required(path)
        return
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        errors.invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
        return
    _validate_labels(domain, names.dns1123_label, path, errors)
    if "." not in domain:
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots")
    _validate_labels(rest, names.dns1123_subdomain, path, errors)


def _validate_labels(dotted: str, check: Callable[[str], list[str]], path: str, errors: FieldErrors) -> None:
    for label in dotted.split("."):
        if messages := check(label):
            for message in messages:
                errors.invalid(path, dotted, f'validating label "{label}": {message}')
            return
