"""What a person may push and pull is what RBAC says of `repositories.images.tarmac.dev` in a namespace."""

from __future__ import annotations

from tests.registry.client import Image
from tests.registry.conftest import Place


def test_what_is_pushed_can_be_pulled_by_whoever_may(place: Place, image: Image) -> None:
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
