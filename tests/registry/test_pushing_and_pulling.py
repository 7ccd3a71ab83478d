"""RBAC on `repositories.images.tarmac.dev` in a namespace decides on pushes and pulls."""

from __future__ import annotations

from tests.registry.client import Image
from tests.registry.conftest import Place


def test_a_pushed_image_is_pulled_by_users_with_the_right(place: Place, image: Image) -> None:
    place.namespace("team-a")
    builder = place.person("team-a", "builder", "tarmac:image-pusher")
    reader = place.person("team-a", "reader", "tarmac:image-puller")
    assert builder.push(image, "team-a/web/app", "1").status == 201
    pulled = reader.pull("team-a/web/app", "1")
    assert (pulled.status, pulled.body) == (200, image.manifest)
    refused = reader.push(image, "team-a/web/app", "2")
    assert (refused.status, refused.message) == (
        403,
        'repositories.images.tarmac.dev "web/app" is forbidden: User "system:serviceaccount:team-a:reader" cannot push '
        'resource "repositories" in API group "images.tarmac.dev" in the namespace "team-a"',
    )


def test_public_repositories_need_no_password(place: Place, image: Image) -> None:
    place.namespace("public")
    assert place.person("public", "builder", "tarmac:image-pusher").push(image, "public/app", "1").status == 201
    everybody = "--group=system:unauthenticated"
    place.kubectl("create", "rolebinding", "all", "--clusterrole=tarmac:image-puller", everybody, "-n", "public")
    assert place.client().pull("public/app", "1").status == 200
    assert place.client().push(image, "public/app", "1").status == 401


def test_a_role_can_name_single_repositories(place: Place, image: Image) -> None:
    place.namespace("single")
    rules = [
        {"apiGroups": ["images.tarmac.dev"], "resources": ["repositories"], "verbs": ["pull", "push"]}
        | {"resourceNames": ["one"]}
    ]
    metadata = {"name": "one", "namespace": "single"}
    place.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules})
    person = place.person("single", "builder")
    place.kubectl("create", "rolebinding", "one", "--role=one", "--serviceaccount=single:builder", "-n", "single")
    assert person.push(image, "single/one", "1").status == 201
    assert person.push(image, "single/two", "1").status == 403


def test_repository_rights_are_listed_by_can_i(place: Place) -> None:
    place.namespace("asked")
    place.person("asked", "builder", "tarmac:image-pusher")
    acting = ("-n", "asked", "--as", "system:serviceaccount:asked:builder")
    listed = place.kubectl("auth", "can-i", "--list", *acting).splitlines()
    [row] = [line.split() for line in listed if line.startswith("repositories.images.tarmac.dev ")]
    assert row[1:] == ["[]", "[]", "[pull", "push]"]
