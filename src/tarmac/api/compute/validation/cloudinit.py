"""cloud-init documents: of a kind that cloud-init knows, of bounded size, and valid YAML if declared as such.

An unreadable cloud-config leaves a machine without logins, and the error appears only on its console. So it is parsed
here (`cloudconfig`), before the machine is created.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

MAX_CLOUD_CONFIG_BYTES = 64 * 1024
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
    """Check the inline documents, or the name of the Secret."""
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
        if size > MAX_CLOUD_CONFIG_BYTES:
            errors.too_long(f"{path}.{field}", None, MAX_CLOUD_CONFIG_BYTES)
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
        except ValueError as error:
            errors.invalid(path, first, str(error))


def has_own_users(user_data: str) -> bool:
    """Return True for a cloud-config with users of its own; cloud-init then creates only those."""
    try:
        return is_cloud_config(user_data) and "users" in keys_of(user_data)
    except ValueError:
        return False


@lru_cache(maxsize=16)  # a template is parsed again for every Instance made from it
def keys_of(cloud_config: str) -> list[str]:
    """Return the keys of a cloud-config. Raises ValueError (`cloudconfig.UnreadableCloudConfig`)."""
    # deferred: the server starts without a YAML parser
    from tarmac.api.compute.validation.cloudconfig import top_level_keys

    return top_level_keys(cloud_config)


def is_cloud_config(text: str) -> bool:
    """Return True if the first line says `#cloud-config`, and not one of the kinds that begin with that name."""
    return text.startswith(_YAML) and not text.startswith(f"{_YAML}-")
