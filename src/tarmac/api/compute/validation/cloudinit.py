"""cloud-init documents: of a kind that cloud-init knows, of bounded size, and YAML where they say so.

A cloud-config that cannot be read leaves a machine that nobody can log in to, and says so on its console only; so it
is read here (`cloudconfig`), before there is a machine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

MOST_BYTES = 64 * 1024
_YAML = "#cloud-config"
FIRST_LINES: Final = (
    _YAML,
    "#!",
    "#include",
    "#cloud-boothook",
    "## template:",
    "#cloud-config-archive",
    "#cloud-config-jsonp",
    "#part-handler",
    "Content-Type:",
    "MIME-Version:",
)


def check_cloud_init(stated: JsonObject, path: str, errors: FieldErrors) -> None:
    """What is inline, or the name of the Secret."""
    secret = stated.get("secretRef")
    if secret is not None:
        if not secret.get("name"):
            errors.required(f"{path}.secretRef.name")
        for field in ("userData", "networkData"):
            if stated.get(field):
                errors.forbidden(f"{path}.{field}", "may not be specified beside `secretRef`")
        return
    size = 0
    for field in ("userData", "networkData"):
        size += len((stated.get(field) or "").encode(errors="surrogatepass"))
        if size > MOST_BYTES:
            errors.too_long(f"{path}.{field}", None, MOST_BYTES)
            return
    if stated.get("userData"):
        _user_data(stated["userData"], f"{path}.userData", errors)


def _user_data(text: str, path: str, errors: FieldErrors) -> None:
    first = text.split("\n", 1)[0]
    if not first.startswith(FIRST_LINES):
        errors.invalid(path, first[:80], f"must begin with one of {', '.join(FIRST_LINES)}")
    elif is_cloud_config(text):
        try:
            keys_of(text)
        except Unreadable as error:
            errors.invalid(path, first, str(error))


def has_own_users(user_data: str) -> bool:
    """Whether it is a cloud-config that says whom the machine has; cloud-init then takes no others."""
    try:
        return is_cloud_config(user_data) and "users" in keys_of(user_data)
    except Unreadable:
        return False


@lru_cache(maxsize=16)  # a template is read again for every Instance that is made from it
def keys_of(cloud_config: str) -> list[str]:
    """The keys of a cloud-config. Raises Unreadable."""
    from tarmac.api.compute.validation.cloudconfig import top_level_keys  # the server starts without a YAML parser

    return top_level_keys(cloud_config)


def is_cloud_config(text: str) -> bool:
    """Whether it is YAML by its first line, and not one of the kinds whose names begin the same."""
    return text.startswith(_YAML) and not text.startswith(f"{_YAML}-")


class Unreadable(ValueError):
    """A cloud-config that cloud-init could not read; the message says where and why."""
