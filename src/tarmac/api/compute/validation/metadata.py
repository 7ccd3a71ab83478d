"""Labels and annotations of the template, and the SSH keys among them."""

from __future__ import annotations

import base64
import re
from itertools import pairwise

from tarmac.api import checks
from tarmac.api.compute.names import ANNOTATION_SSH_KEYS
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_KEY_TYPES = frozenset(
    {
        "ssh-rsa",
        "ssh-dss",
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)


_user = re.compile(r"[a-z_][a-z0-9_-]{0,31}").fullmatch


def check_template_metadata(template: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check labels, annotations, and shorthands that contradict them."""
    metadata = checks.mapping(template, "metadata")
    for shorthand in ("labels", "annotations"):
        short = template.get(shorthand)
        if short is not None and short != (metadata.get(shorthand) or {}):
            errors.forbidden(f"{path}.{shorthand}", f"differs from {path}.metadata.{shorthand}; set only one of them")
    checks.labels(metadata.get("labels") or {}, f"{path}.metadata.labels", errors)
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        checks.report(checks.names.qualified_name(key.lower()), key, f"{path}.metadata.annotations", errors)
    if ANNOTATION_SSH_KEYS in annotations:
        check_ssh_keys(annotations[ANNOTATION_SSH_KEYS], f"{path}.annotations[{ANNOTATION_SSH_KEYS}]", errors)


def check_ssh_keys(text: str, path: str, errors: FieldErrors) -> None:
    """Check lines of `user:authorized key`."""
    for index, line in enumerate(text.strip().split("\n")):
        user, colon, key = line.strip().partition(":")
        if not colon:
            errors.invalid(f"{path}[{index}]", line, "must be in the format 'username:key'")
            continue
        if not user:
            errors.required(f"{path}[{index}]", "must provide a username")
        else:
            check_user(user, f"{path}[{index}]", errors)
        if not _is_public_key(key):
            errors.invalid(f"{path}[{index}]", key, "must be a valid SSH public key")


def check_user(name: str, path: str, errors: FieldErrors) -> None:
    """Check the name of a login user."""
    if not _user(name):
        detail = "the user must begin with a lower case letter or '_' and have at most 32 of a-z, 0-9, '_' and '-'"
        errors.invalid(path, name, detail)


def ssh_users(text: str) -> list[str]:
    """Return the users with keys, each once, in order."""
    users = [line.strip().partition(":")[0] for line in text.strip().split("\n")]
    return list(dict.fromkeys(user for user in users if user))


def _is_public_key(text: str) -> bool:
    """Return True if an authorized_keys line holds a key: its type, then a blob that begins with the same type."""
    words = text.split()
    return any(word in _KEY_TYPES and _names_itself(blob, word) for word, blob in pairwise(words))


def _names_itself(blob: str, key_type: str) -> bool:
    try:
        raw = base64.b64decode(blob, validate=True)
    except ValueError:  # not base64, or not even ASCII
        return False
    length = int.from_bytes(raw[:4], "big")
    return raw[4 : 4 + length] == key_type.encode() and len(raw) > 4 + length
