"""Container images: a reference that names its registry."""

from __future__ import annotations

import re

from tarmac.base.fielderrors import FieldErrors

_HOST = r"(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_TAG = r":[\w][\w.-]{0,127}"
_DIGEST = r"@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_reference = re.compile(rf"({_HOST})/{_COMPONENT}(?:/{_COMPONENT})*({_TAG})?({_DIGEST})?", re.ASCII).fullmatch
_short = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*(?:{_TAG})?(?:{_DIGEST})?", re.ASCII).fullmatch
_MAX_LENGTH = 255


def names_registry(image: str) -> bool:
    """Return True if the first part can only be a registry, by the rule that every container tool uses."""
    host, slash, _ = image.partition("/")
    return slash != "" and ("." in host or ":" in host or host == "localhost" or host != host.lower())


def is_reference(image: str) -> bool:
    """Return True if the text is an image reference, with or without a registry."""
    return len(image) <= _MAX_LENGTH and bool(_reference(image) if names_registry(image) else _short(image))


def check_image(image: str, path: str, errors: FieldErrors) -> None:
    """Check a fully qualified image reference."""
    if len(image) <= _MAX_LENGTH and not names_registry(image) and _short(image):
        repository = image if "/" in image else f"library/{image}"
        errors.invalid(path, image, f"must include a registry, e.g. docker.io/{repository}")
    elif not is_reference(image):
        errors.invalid(path, image, "must be an image reference, e.g. ghcr.io/acme/api:1.4.2")


def means_latest(image: str) -> bool:
    """Return True if the reference has neither tag nor digest."""
    match = _reference(image) if len(image) <= _MAX_LENGTH else None
    return match is not None and not match[2] and not match[3]
