"""Strategic merge patch: merges each list by its schema's patch strategy.

Lists with patch strategy `merge` merge by their merge key (objects) or as sets (scalars); all other lists are replaced.
The patch may carry directives:

    $patch: replace | delete             for the object (or, in a list, the item) that holds it
    $deleteFromPrimitiveList/<field>     values to remove from a list of scalars
    $setElementOrder/<field>             the order the items known to the client should have
    $retainKeys                          fields to keep; all other fields of the live object are removed

Order of a merged list: items of the patch in the patch's order (or $setElementOrder's), with items only the server
knows inserted at their previous position.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject, Schema, Type
from tarmac.api.status import ApiError, BadRequest
from tarmac.server.patch.gotext import go_text, go_type, unclassified
from tarmac.server.patch.jsonpatch import rejected
from tarmac.server.patch.listorder import Identify, arrange

_PATCH = "$patch"
_DELETE = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"
_RETAIN = "$retainKeys"
_FREE = Schema(Type.ANY)
_NESTED = (dict, list)


def apply_strategic_patch(schema: Schema, document: JsonObject, patch: JsonObject) -> JsonObject:
    """Return the merged document. Raises ApiError for an invalid patch."""
    return _merge_object(schema, document, patch)


def _merge_object(schema: Schema, document: JsonObject, patch: JsonObject) -> JsonObject:
    if _PATCH in patch:
        return _directed(patch)
    merged = _retained(document, patch)
    # Before the loop, which skips these fields: merging them again would lose the order.
    ordered = _merge_ordered_lists(schema, merged, patch)
    for key, value in patch.items():
        if key == _RETAIN or key in ordered or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE):
            _delete_scalars(merged, _field_of(key, _DELETE), value)
        elif value is None:
            merged.pop(key, None)
        else:
            _merge_field(schema, merged, key, value)
    return merged


def _directed(patch: JsonObject) -> JsonObject:
    match patch[_PATCH]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        case "delete":
            return {}
        case other:
            raise unclassified(f"unknown patch type: {go_text(other)} in map: {go_text(patch)}")


def _merge_field(schema: Schema, merged: JsonObject, key: str, value: Any) -> None:
    current = merged.get(key)
    declared = _field_schema(schema, key)
    if isinstance(current, dict) and isinstance(value, dict):
        merged[key] = value if "replace" in declared.patch_strategy else _merge_object(declared, current, value)
    elif isinstance(current, list) and isinstance(value, list):
        merged[key] = _merge_list(declared, current, value) if "merge" in declared.patch_strategy else value
    elif isinstance(value, dict) and _PATCH in value:
        merged.pop(key, None)
    else:
        merged[key] = _added(value) if isinstance(value, _NESTED) else value


def _field_schema(schema: Schema, key: str) -> Schema:
    if schema.type is Type.OBJECT:
        return schema.fields.get(key, _FREE)
    return schema.items if schema.type is Type.MAP and schema.items is not None else _FREE


def _merge_list(schema: Schema, current: list[Any], patch: list[Any]) -> list[Any]:
    if not current and not patch:
        return current
    if not _holds_objects(current, patch):
        return arrange([*dict.fromkeys([*current, *patch])], patch, current, _scalar)
    key = schema.patch_merge_key
    if not key:
        raise unclassified("cannot merge lists without merge key for struct")
    current, patch = _carry_out_item_directives(current, patch, key)
    identify = _by_key(key)
    return arrange(_merge_items(schema, current, patch, key), patch, current, identify)


def _merge_items(schema: Schema, current: list[Any], patch: list[Any], key: str) -> list[Any]:
    merged = list(current)
    items = schema.items or _FREE
    places: dict[Any, int] = {}
    for place, item in enumerate(current):
        # The first of several items with one key, as in kube-apiserver; the copies of such a key stay as they are.
        places.setdefault(_hashable(item.get(key)), place)
    for item in patch:
        if key not in item:
            raise _no_merge_key(item, key)
        place = places.setdefault(_hashable(item[key]), len(merged))
        if place == len(merged):
            merged.append(item)
        else:
            merged[place] = _merge_object(items, merged[place], item)
    return merged


def _carry_out_item_directives(current: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Execute the items with `$patch` on the list; return the list and the remaining items to merge."""
    plain = [item for item in patch if _PATCH not in item]
    replace, deleted = False, set[Any]()
    for item in patch:
        match item.get(_PATCH):
            case None if _PATCH not in item:
                continue
            case "delete":
                if key not in item:
                    raise _no_merge_key(item, key)
                deleted.add(_hashable(item[key]))
            case "replace":
                replace = True
            case "merge":
                raise unclassified("merging lists cannot yet be specified in the patch")
            case other:
                raise unclassified(f"unknown patch type: {go_text(other)} in map: {go_text(item)}")
    if replace:
        return plain, []
    return [item for item in current if _hashable(item.get(key)) not in deleted] if deleted else current, plain


def _merge_ordered_lists(schema: Schema, merged: JsonObject, patch: JsonObject) -> set[str]:
    """Merge and order the lists that have a `$setElementOrder`, in place; return the handled fields."""
    done: set[str] = set()
    for key, order in patch.items():
        if not key.startswith(_ORDER):
            continue
        field = _field_of(key, _ORDER)
        if not isinstance(order, list):
            raise _wrong_type("[]interface {}", order)
        if field not in merged and field not in patch:
            continue
        merged[field] = _ordered(_field_schema(schema, field), merged.get(field), patch.get(field), order)
        done.add(field)
    return done


def _ordered(schema: Schema, current: Any, patch: Any, order: list[Any]) -> list[Any]:
    for value in (current, patch):
        if value is not None and not isinstance(value, list):
            raise _wrong_type("[]interface {}", value)
    _check_order(patch or [], order, schema.patch_merge_key)
    if patch is None:
        merged = current
    elif current is None:
        merged = _without_directives(patch)
    else:
        merged = _merge_list(schema, current, patch) if "merge" in schema.patch_strategy else patch
    identify = _by_key(schema.patch_merge_key) if schema.patch_merge_key else _scalar
    return arrange(merged, order, current or [], identify)


def _check_order(patch: list[Any], order: list[Any], key: str | None) -> None:
    """Reject a patch unless its items are a subsequence of its $setElementOrder list. Raises ApiError."""
    if not patch or not order:
        return
    identify = _by_key(key) if key else _scalar
    wanted = iter([identify(item) for item in order])
    for item in patch:
        if isinstance(item, dict) and _PATCH in item:
            continue
        # `in` consumes the iterator up to the match, which makes this a test for a subsequence.
        if identify(item) not in wanted:
            raise unclassified(
                f"The order in patch list:\n{go_text(patch)}\n doesn't match {_ORDER} list:\n{go_text(order)}\n"
            )


def _delete_scalars(merged: JsonObject, field: str, values: Any) -> None:
    current = merged.get(field)
    if isinstance(current, list) and isinstance(values, list):
        deleted = {_hashable(value) for value in values}
        merged[field] = [item for item in current if _hashable(item) not in deleted]


def _retained(document: JsonObject, patch: JsonObject) -> JsonObject:
    if _RETAIN not in patch:
        return dict(document)
    names = patch[_RETAIN]
    if not isinstance(names, list):
        raise BadRequest("invalid patch format of retainKeys")
    names = {_hashable(name) for name in names}
    for key, value in patch.items():
        if value is not None and key not in names and not key.startswith((_DELETE, _ORDER, _RETAIN)):
            raise BadRequest("invalid patch format of retainKeys")
    return {key: value for key, value in document.items() if key in names}


def _field_of(key: str, prefix: str) -> str:
    head, slash, field = key.partition("/")
    if not slash or head != prefix:
        what = "primitive list" if prefix == _DELETE else "setElementOrder list"
        raise BadRequest(f"invalid patch format of {what}")
    return field


def _added(value: Any) -> Any:
    """Return a copy of a new value without null members and without objects that hold a non-null `$patch`."""
    if isinstance(value, dict):
        return {
            key: _added(item) if isinstance(item, _NESTED) else item
            for key, item in value.items()
            if item is not None and not (isinstance(item, dict) and item.get(_PATCH) is not None)
        }
    return [
        _added(item) if isinstance(item, _NESTED) else item
        for item in value
        if not (isinstance(item, dict) and item.get(_PATCH) is not None)
    ]


def _without_directives(value: Any) -> Any:
    """Return a copy of a value without the objects that hold `$patch`."""
    if isinstance(value, dict):
        return {key: _without_directives(item) for key, item in value.items() if not _is_directed(item)}
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directed(item)]
    return value


def _is_directed(value: Any) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _holds_objects(current: list[Any], patch: list[Any]) -> bool:
    kinds = {type(item) for item in (*current, *patch)}
    if list in kinds:
        raise rejected()
    if len(kinds) > 1:
        raise unclassified(f"list element types are not identical: {go_text([current, patch])}")
    return kinds == {dict}


def _hashable(value: Any) -> Any:
    """Return a hashable stand-in for a value. Sets keep lookups fast even for very long lists of a malicious client."""
    return go_text(value) if isinstance(value, dict | list) else value


def _by_key(key: str) -> Identify:
    def identify(item: Any) -> Any:
        if not isinstance(item, dict):
            raise _wrong_type("map[string]interface {}", item)
        if key not in item:
            raise _no_merge_key(item, key)
        return _hashable(item[key])

    return identify


def _scalar(item: Any) -> Any:
    if isinstance(item, dict | list):
        raise unclassified("cannot merge lists without merge key for struct")
    return item


def _no_merge_key(item: JsonObject, key: str) -> ApiError:
    return unclassified(f"map: {go_text(item)} does not contain declared merge key: {key}")


def _wrong_type(expected: str, value: Any) -> ApiError:
    actual = "%!s(<nil>)" if value is None else go_type(value)
    return unclassified(f"expected a {expected}, but received a {actual}")
