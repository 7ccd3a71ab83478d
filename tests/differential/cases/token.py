"""Tokens of service accounts."""

from __future__ import annotations

from tests.differential.shared import ACCOUNTS, PODS, SECRETS, meta, pod
from tests.differential.steps import Json, Step, create, delete, feature, get
from tests.differential.views import claims

_ACCOUNT = create(ACCOUNTS, {"metadata": meta("robot")})
_NOBODY = "7b1e0f1c-0000-0000-0000-000000000000"


def _token(account: str = "robot", **spec: Json) -> Step:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return create(f"{ACCOUNTS}/{account}/token", body)


def _as_robot(step: Step) -> Step:
    return step.anonymous().having({"Authorization": "Bearer $token"})


_KEPT = _token().viewing(claims).keep(token="status.token")
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

CASES = feature(
    "token",
    for_an_account=(_ACCOUNT, _token().viewing(claims)),
    for_an_audience_and_a_time=(_ACCOUNT, _token(audiences=["vault"], expirationSeconds=1200).viewing(claims)),
    bound_to_a_pod=(
        _ACCOUNT,
        create(PODS, pod(spec={"serviceAccountName": "robot"})).keep(uid="metadata.uid"),
        _token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "a", "uid": "$uid"}).viewing(claims),
    ),
    bound_to_a_secret=(
        _ACCOUNT,
        create(SECRETS, {"metadata": meta("s")}),
        _token(boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "s"}).viewing(claims),
    ),
    bound_to_a_pod_of_another_account=(
        _ACCOUNT,
        create(PODS, pod()),
        _token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "a"}),
    ),
    bound_to_a_pod_that_is_not_there=(
        _ACCOUNT,
        _token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "a"}),
    ),
    bound_to_another_uid=(
        _ACCOUNT,
        create(PODS, pod(spec={"serviceAccountName": "robot"})),
        _token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "a", "uid": _NOBODY}),
    ),
    bound_to_a_kind_it_cannot_be=(
        _ACCOUNT,
        _token(boundObjectRef={"kind": "Service", "apiVersion": "v1", "name": "a"}),
    ),
    bound_to_nothing=(_ACCOUNT, _token(boundObjectRef={})),
    bound_to_a_kind_without_a_name=(_ACCOUNT, _token(boundObjectRef={"kind": "Pod", "apiVersion": "v1"})),
    of_another_namespace=(_ACCOUNT, create(f"{ACCOUNTS}/robot/token", {"metadata": {"namespace": "other"}})),
    of_another_name=(_ACCOUNT, create(f"{ACCOUNTS}/robot/token", {"metadata": {"name": "other"}})),
    too_short=(_ACCOUNT, _token(expirationSeconds=5)),
    too_long=(_ACCOUNT, _token(expirationSeconds=1 << 33)),
    for_nobody=_token("nobody"),
    makes_a_user=(_ACCOUNT, _KEPT, _as_robot(create("/apis/authentication.k8s.io/v1/selfsubjectreviews", _REVIEW))),
    gives_no_rights=(_ACCOUNT, _KEPT, _as_robot(get(PODS))),
    goes_with_its_account=(_ACCOUNT, _KEPT, delete(f"{ACCOUNTS}/robot"), _as_robot(get(PODS))),
    of_another_audience_is_refused=(
        _ACCOUNT,
        _token(audiences=["vault"]).viewing(claims).keep(token="status.token"),
        _as_robot(get(PODS)),
    ),
    is_reviewed=(
        _ACCOUNT,
        _KEPT,
        create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "$token"}}).viewing(
            lambda body: body["status"]
        ),
    ),
    that_is_none_is_reviewed=create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "nonsense"}}),
    lets_ask_what_one_may_do=(
        _ACCOUNT,
        _KEPT,
        _as_robot(
            create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "$ns"}})
        ).viewing(lambda body: [body["kind"], sorted(body["status"]), body["status"]["incomplete"]]),
    ),
)
