"""Placements: the places of instances."""

from __future__ import annotations

import re

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.compute.constraint import MAX_LENGTH, ConstraintError, compile_constraint
from tarmac.api.compute.validation.context import Context
from tarmac.api.compute.validation.scaling import check_scale_settings
from tarmac.api.schema import JsonObject
from tarmac.base.duration import parse_duration
from tarmac.base.fielderrors import FieldErrors

CITY_CODE = re.compile(r"[A-Z]{3}")
_SCOPES = ("cityCode",)
_LOSS_POLICIES = ("Stay", "Move")
# ways to choose places, in the order in which a second one is rejected
_CHOICES = ("cityCodes", "selector", "locations", "locationSelector")


def check_placements(spec: JsonObject, path: str, context: Context) -> None:
    """Check the placements of a Workload's spec."""
    placements = objects(spec, "placements")
    if not placements:
        context.errors.required(f"{path}.placements")
    names: set[str] = set()
    for index, placement in enumerate(placements):
        where = f"{path}.placements[{index}]"
        checks.unique_name(placement.get("name", ""), names, f"{where}.name", context.errors)
        _places(placement, where, context)
        check_scale_settings(placement, where, context.errors)
        _city_loss(mapping(placement, "onCityLoss"), f"{where}.onCityLoss", context)


def _places(placement: JsonObject, path: str, context: Context) -> None:
    errors = context.errors
    chosen = [choice for choice in _CHOICES if placement.get(choice)]
    if not chosen:
        empty = next((choice for choice in _CHOICES if placement.get(choice) is not None), _CHOICES[0])
        errors.required(f"{path}.{empty}", f"must choose places by one of: {', '.join(_CHOICES)}")
    for choice in chosen[1:]:
        errors.forbidden(f"{path}.{choice}", f"may not be specified beside `{chosen[0]}`")
    if placement.get("scope"):
        checks.one_of(placement["scope"], _SCOPES, f"{path}.scope", errors)
    check_cities(placement.get("cityCodes") or [], f"{path}.cityCodes", context)
    if placement.get("selector"):
        _constraint(placement["selector"].get("constraint", ""), f"{path}.selector.constraint", errors)
    _locations(objects(placement, "locations"), f"{path}.locations", context)
    checks.label_selector(placement.get("locationSelector"), f"{path}.locationSelector", errors)


def check_cities(cities: list[str], path: str, context: Context) -> None:
    """Check city codes: three capital letters, each once, each with a Location."""
    known = context.lookup.cities()
    for index, city in enumerate(cities):
        where = f"{path}[{index}]"
        if not CITY_CODE.fullmatch(city):
            context.errors.invalid(where, city, "must be an IATA code of three letters, e.g. DFW")
        elif city in cities[:index]:
            context.errors.duplicate(where, city)
        elif known is not None and city not in known and city not in context.stored.cities:
            context.errors.not_supported(where, city, sorted(known))


def _constraint(text: str, path: str, errors: FieldErrors) -> None:
    if not text:
        errors.required(path)
    elif len(text) > MAX_LENGTH:
        errors.too_long(path, text, MAX_LENGTH)
    else:
        try:
            compile_constraint(text)
        except ConstraintError as error:
            errors.invalid(path, text, str(error))


def _locations(locations: list[JsonObject], path: str, context: Context) -> None:
    known = context.lookup.locations()
    seen: set[str] = set()
    for index, location in enumerate(locations):
        where, name = f"{path}[{index}].name", location.get("name", "")
        if not name:
            context.errors.required(where)
        elif name in seen:
            context.errors.duplicate(where, name)
        elif known is not None and name not in known and name not in context.stored.locations:
            context.errors.not_found(where, name)
        seen.add(name)


def _city_loss(rule: JsonObject, path: str, context: Context) -> None:
    checks.one_of(rule.get("policy", _LOSS_POLICIES[0]), _LOSS_POLICIES, f"{path}.policy", context.errors)
    check_cities(rule.get("cities") or [], f"{path}.cities", context)
    if rule.get("policy") == "Move" and not rule.get("cities"):
        context.errors.required(f"{path}.cities", "must name cities to move to")
    after = rule.get("after")
    if not after:
        return
    try:
        negative = parse_duration(after) < 0
    except ValueError as error:
        context.errors.invalid(f"{path}.after", after, str(error))
    else:
        if negative:
            context.errors.invalid(f"{path}.after", after, "must not be negative")
