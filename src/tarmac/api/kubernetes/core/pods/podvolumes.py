"""Validation of a pod's volumes: one source each, and the rules of the sources that pods commonly use.

Sources of cloud providers and of removed in-tree drivers are checked only for being the sole source of their volume.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tarmac.api import checks
from tarmac.api.kubernetes.core import volumeclaims
from tarmac.api.kubernetes.core.pods import environment
from tarmac.api.kubernetes.resourcenames import ZERO, quantity
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


def validate_volumes(
    volumes: Sequence[JsonObject], pod_name: str, path: str, errors: FieldErrors
) -> dict[str, JsonObject]:
    """Check all volumes; return the valid ones by name, for checks of mounts."""
    sound: dict[str, JsonObject] = {}
    generated = {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if pod_name and "ephemeral" in volume}
    for index, volume in enumerate(volumes):
        at = f"{path}[{index}]"
        before = len(errors)
        _validate_source(volume, pod_name, at, errors)
        name = volume.get("name", "")
        if not name:
            errors.required(f"{at}.name")
        elif messages := names.dns1123_label(name):
            checks.report(messages, name, f"{at}.name", errors)
        if name in sound:
            errors.duplicate(f"{at}.name", name)
        if len(errors) == before:
            sound[name] = volume
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and claim.get("claimName") in generated:
            errors.invalid(
                f"{at}.persistentVolumeClaim.claimName",
                claim["claimName"],
                "must not reference a PVC that gets created for an ephemeral volume",
            )
    return sound


def _validate_source(volume: JsonObject, pod_name: str, path: str, errors: FieldErrors) -> None:
    sources = [key for key in volume if key != "name"]
    if not sources:
        errors.required(path, "must specify a volume type")
        return
    if len(sources) > 1:
        sources.sort(key=_order)
        for extra in sources[1:]:
            errors.forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    kind = sources[0]
    if check := _SOURCES.get(kind):
        check(volume[kind], f"{path}.{kind}", errors)
    if kind == "ephemeral" and pod_name and volume.get("name"):
        claim_name = f"{pod_name}-{volume['name']}"
        for message in names.dns1123_subdomain(claim_name):
            errors.invalid(f"{path}.name", volume["name"], f'PVC name "{claim_name}": {message}')


def _order(kind: str) -> int:
    """Return the position of a source in Kubernetes' fixed order; the first one counts, further ones are errors."""
    return _LOOKED_AT.index(kind) if kind in _LOOKED_AT else len(_LOOKED_AT)


def _empty_dir(source: JsonObject, path: str, errors: FieldErrors) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and quantity(limit) < ZERO:
        errors.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: JsonObject, path: str, errors: FieldErrors) -> None:
    if not source.get("path"):
        errors.required(f"{path}.path")
        return
    checks.no_backsteps(source["path"], f"{path}.path", errors)
    if source.get("type", "") not in _HOST_PATH_TYPES:
        errors.not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES)


def _keys_with_mode(named_by: str, source: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check keys as files, of the ConfigMap or Secret that the field `named_by` names."""
    if not source.get(named_by):
        errors.required(f"{path}.{named_by}")
    checks.file_mode(source, "defaultMode", path, errors)
    for index, item in enumerate(source.get("items") or ()):
        _key_to_path(item, f"{path}.items[{index}]", errors)


def _key_to_path(item: JsonObject, path: str, errors: FieldErrors) -> None:
    if not item.get("key"):
        errors.required(f"{path}.key")
    target = item.get("path", "")
    if not target:
        errors.required(f"{path}.path")
    checks.projected_path(target, f"{path}.path", errors)
    checks.file_mode(item, "mode", path, errors)


def _downward_api(source: JsonObject, path: str, errors: FieldErrors) -> None:
    checks.file_mode(source, "defaultMode", path, errors)
    for item in source.get("items") or ():
        _downward_file(item, path, errors)


def _downward_file(item: JsonObject, path: str, errors: FieldErrors) -> None:
    target = item.get("path", "")
    if not target:
        errors.required(f"{path}.path")
    checks.projected_path(target, f"{path}.path", errors)
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        environment.validate_field_ref(field, environment.VOLUME_FIELDS, f"{path}.fieldRef", errors)
        if resource is not None:
            errors.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif resource is not None:
        environment.validate_resource_ref(resource, f"{path}.resourceFieldRef", errors, in_volume=True)
    else:
        errors.required(path, "one of fieldRef and resourceFieldRef is required")
    checks.file_mode(item, "mode", path, errors)


def _projected(source: JsonObject, path: str, errors: FieldErrors) -> None:
    checks.file_mode(source, "defaultMode", path, errors)
    taken: set[str] = set()
    for index, projection in enumerate(checks.objects(source, "sources")):
        at = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if (part := projection.get(kind)) is not None:
                if not part.get("name"):
                    errors.required(f"{at}.{kind}.name")
                for position, item in enumerate(part.get("items") or ()):
                    _key_to_path(item, f"{at}.{kind}.items[{position}]", errors)
                    _take_path(item.get("path"), part.get("name", ""), taken, path, errors)
        if (part := projection.get("downwardAPI")) is not None:
            for item in checks.objects(part, "items"):
                _downward_file(item, f"{at}.downwardAPI", errors)
                _take_path(item.get("path"), item.get("path"), taken, path, errors)
        if (part := projection.get("serviceAccountToken")) is not None:
            _token(part, path, f"{at}.serviceAccountToken", errors)
        if len(projection) > 1:
            errors.forbidden(at, "may not specify more than 1 volume type per source")


def _take_path(target: str | None, shown: str | None, taken: set[str], path: str, errors: FieldErrors) -> None:
    if not target:
        return
    if target in taken:
        errors.invalid(path, shown, "conflicting duplicate paths")
    taken.add(target)


def _token(token: JsonObject, path: str, indexed: str, errors: FieldErrors) -> None:
    seconds = token.get("expirationSeconds", 0)
    if seconds < 600:
        errors.invalid(f"{indexed}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > 1 << 32:
        errors.invalid(f"{indexed}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    target = token.get("path", "")
    if not target:
        errors.required(f"{path}.path")
    else:
        checks.projected_path(target, f"{path}.path", errors)


def _claim(source: JsonObject, path: str, errors: FieldErrors) -> None:
    if not source.get("claimName"):
        errors.required(f"{path}.claimName")


def _ephemeral(source: JsonObject, path: str, errors: FieldErrors) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        errors.required(f"{path}.volumeClaimTemplate")
    else:
        volumeclaims.validate_template(template, f"{path}.volumeClaimTemplate", errors)


def _csi(source: JsonObject, path: str, errors: FieldErrors) -> None:
    volumeclaims.validate_driver_name(source.get("driver", ""), f"{path}.driver", errors)
    reference = source.get("nodePublishSecretRef")
    if reference is not None:
        if not reference.get("name"):
            errors.required(f"{path}.nodePublishSecretRef.name")
        else:
            checks.dns_subdomain(reference["name"], f"{path}.name", errors)


def _image(source: JsonObject, path: str, errors: FieldErrors) -> None:
    if not source.get("reference"):
        errors.required(f"{path}.reference")
    checks.one_of(source.get("pullPolicy", ""), checks.PULL_POLICIES, f"{path}.pullPolicy", errors)


def _nfs(source: JsonObject, path: str, errors: FieldErrors) -> None:
    for field in ("server", "path"):
        if not source.get(field):
            errors.required(f"{path}.{field}")
    if not source.get("path", "").startswith("/"):
        errors.invalid(f"{path}.path", source.get("path", ""), "must be an absolute path")


_SOURCES: dict[str, Callable[[JsonObject, str, FieldErrors], None]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": partial(_keys_with_mode, "secretName"),
    "nfs": _nfs,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward_api,
    "configMap": partial(_keys_with_mode, "name"),
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
_LOOKED_AT = tuple(_SOURCES)
