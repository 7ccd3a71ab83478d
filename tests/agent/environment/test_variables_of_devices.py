"""Variables of device plugins, merged with those of pod and image."""

from __future__ import annotations

from tarmac.agent.environment.variables import with_devices

GIVEN = {"GPUS": "all", "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64", "PATH": "/usr/local/nvidia/bin"}


def test_search_paths_are_completed_and_never_replaced() -> None:
    image = ["PATH=/opt/conda/bin:/usr/bin", "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64"]
    known = with_devices(GIVEN, {}, image)
    assert known["PATH"] == "/opt/conda/bin:/usr/bin:/usr/local/nvidia/bin"
    assert known["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"


def test_a_pods_own_search_path_wins_over_the_images_and_is_completed() -> None:
    known = with_devices(GIVEN, {"PATH": "/mine", "LD_LIBRARY_PATH": "/lib/mine"}, ["PATH=/image"])
    assert known["PATH"] == "/mine:/usr/local/nvidia/bin"
    assert known["LD_LIBRARY_PATH"] == "/lib/mine:/usr/local/nvidia/lib64"


def test_an_image_without_variables_has_the_runtimes_default_path() -> None:
    known = with_devices(GIVEN, {}, ["no variable"])
    assert known["PATH"] == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/nvidia/bin"
    assert known["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"


def test_other_variables_of_the_pod_override_those_of_a_plugin() -> None:
    assert with_devices(GIVEN, {"GPUS": "none"}, [])["GPUS"] == "none"


def test_a_container_without_devices_keeps_its_variables() -> None:
    assert with_devices({}, {"A": "b"}, ["PATH=/image"]) == {"A": "b"}
