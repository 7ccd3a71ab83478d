"""Output as text in 100 columns. These texts are part of the external contract."""

from __future__ import annotations

import textwrap

from tarmac.api.compute.explanations import Cause, CityPlan, Explanation, ExplanationLine, Plan, Refused, Subject
from tarmac.api.compute.instance import InstanceRuntime, InstanceTemplate, InstanceTemplateSpec, RuntimeResources
from tarmac.api.compute.workload import (
    ScaleSettings,
    WorkloadDeployment,
    WorkloadDeploymentSpec,
    WorkloadDeploymentStatus,
    WorkloadReference,
)
from tarmac.api.shared import ObjectMeta
from tarmac.cli.rendering.explanation import explanation_text
from tarmac.cli.rendering.plantext import plan_text
from tarmac.cli.rendering.rollout import CityProgress, incomplete_line, progress_line, progress_of, progress_table
from tarmac.cli.rendering.text import table

SUBJECT = Subject("compute.datumapis.com/v1alpha", "Workload", "default", "web")


def shown(text: str) -> str:
    """A text as it is written in a test."""
    return textwrap.dedent(text).lstrip("\n")


def test_an_explanation_is_a_sentence_a_table_and_a_change() -> None:
    full = "Needs 20 CPUs; lhr-0 has 12 free."
    lines = [
        ExplanationLine("Yes", "Complete", "3 of 3 instances are ready.", "ready", "DFW"),
        ExplanationLine(
            "No", "InsufficientCapacity", "2 of 3 instances: 0/1 nodes at lhr: 1 Insufficient cpu.", "nodes", "LHR"
        ),
        ExplanationLine("No", "InsufficientCapacity", full, "resources", "LHR", "lhr-0"),
    ]
    sentence = "Workload default/web has 4 of 6 instances ready in 2 of 2 cities; in LHR: 2 of 3 instances: no room."
    found = Explanation(SUBJECT, sentence, lines, "Ask for at most 12 CPUs, or free 8 CPUs on lhr-0.")
    assert explanation_text(found) == shown("""
        Workload default/web has 4 of 6 instances ready in 2 of 2 cities; in LHR: 2 of 3 instances: no room.

        CITY  NODE   RULE       ANSWER  REASON                MESSAGE
        DFW          ready      Yes     Complete              3 of 3 instances are ready.
        LHR          nodes      No      InsufficientCapacity  2 of 3 instances: 0/1 nodes at lhr: 1
                                                              Insufficient cpu.
        LHR   lhr-0  resources  No      InsufficientCapacity  Needs 20 CPUs; lhr-0 has 12 free.

        Smallest change: Ask for at most 12 CPUs, or free 8 CPUs on lhr-0.
        """)


def test_transient_causes_suggest_no_change() -> None:
    line = ExplanationLine("Wait", "ProvisioningNetwork", "Network is being provisioned.", "network", "DFW")
    text = explanation_text(Explanation(SUBJECT, "Workload default/web is new.", [line]))
    assert text.endswith("\n\nNothing to change: it goes on by itself.\n")


def test_all_is_well_in_as_few_words() -> None:
    line = ExplanationLine("Yes", "Complete", "1 of 1 instances are ready.", "ready", "DFW")
    found = Explanation(SUBJECT, "Workload default/web has 1 of 1 instances ready.", [line])
    assert explanation_text(found) == shown("""
        Workload default/web has 1 of 1 instances ready.

        CITY  RULE   ANSWER  REASON    MESSAGE
        DFW   ready  Yes     Complete  1 of 1 instances are ready.
        """)


def test_no_line_is_wider_than_the_terminal_unless_one_word_is() -> None:
    rows = [("a-rather-long-name-of-a-node-0", "SomeReasonOrOther", "words " * 40)]
    assert max(len(line) for line in table(("NODE", "REASON", "MESSAGE"), rows).splitlines()) <= 100


def test_names_are_never_broken() -> None:
    name = "web-lhr-3f91a53a-3"
    assert name in table(("CITY", "MESSAGE"), [("LHR", "word " * 17 + name)])


def test_a_plan_says_what_would_happen_and_then_what_could_not() -> None:
    refused = Refused(
        "InsufficientCapacity", "2 of 5 instances: 0/3 nodes at lhr: 3 Insufficient cpu.", "Add a node.", 2
    )
    plan = Plan(accepted=True, cities=[CityPlan("DFW", 1, 4), CityPlan("LHR", 2, 3, 0, 0, 0, [refused])])
    assert plan_text("default/web", plan) == shown("""
        Some instances of Workload default/web would not run (LHR): create 3, replace 7.

        CITY  CREATE  REPLACE  DELETE  KEEP  REFUSED
        DFW   1       4        0       0
        LHR   2       3        0       0     2

        CITY  REASON                MESSAGE
        LHR   InsufficientCapacity  2 of 5 instances: 0/3 nodes at lhr: 3 Insufficient cpu.

        Smallest change: Add a node.
        """)


def test_a_plan_says_how_many_boot_disks_are_made_again() -> None:
    text = plan_text("default/web", Plan(accepted=True, cities=[CityPlan("DFW", 0, 2, boot_disks=2)]))
    assert text.startswith("Workload default/web would run: replace 2, make 2 boot disks again (another image).\n")


def test_a_plan_that_changes_nothing_says_so() -> None:
    text = plan_text("default/web", Plan(accepted=True, cities=[CityPlan("DFW", keep=2)]))
    assert text.startswith("Workload default/web would run: nothing to do.\n")


def test_a_refused_manifest_lists_every_cause() -> None:
    cause = Cause("spec.placements[0].name", "FieldValueRequired", "Required value")
    assert plan_text("default/web", Plan(accepted=False, causes=[cause])) == shown("""
        Workload default/web would be refused: 1 cause.

        FIELD                    MESSAGE
        spec.placements[0].name  Required value
        """)


def test_a_rollout_is_a_table_on_a_terminal_and_lines_elsewhere() -> None:
    city = CityProgress("DFW", 2, 3, 5, "Progressing", "NewRevision")
    assert progress_line(city) == "DFW: 2 of 5 ready, 3 up to date, Progressing (NewRevision)\n"
    assert progress_table([city], 24) == shown("""
        CITY  READY  UP-TO-DATE  DESIRED  STATUS       REASON
        DFW   2      3           5        Progressing  NewRevision
        """)


def test_more_cities_than_the_terminal_has_lines_show_those_that_are_not_complete() -> None:
    """The repainted area must fit, and complete cities are of no interest."""
    done = [CityProgress(f"A{index:02}", 2, 2, 2, "Available", "") for index in range(30)]
    slow = CityProgress("ZRH", 1, 1, 2, "Progressing", "Scaling")
    lines = progress_table([*done, slow], 10).splitlines()
    assert len(lines) == 9
    assert lines[1].startswith("ZRH ")
    assert lines[-1] == "… and 24 more, 24 of them complete"
    assert len(progress_table(done[:8], 10).splitlines()) == 9, "all of them, without a rest"


def test_the_last_line_of_a_rollout_names_the_incomplete_cities() -> None:
    done = CityProgress("DFW", 2, 2, 2, "Available", "")
    behind = [CityProgress(f"A{index:02}", 2, 0, 2, "Available", "") for index in range(7)]
    stopped = CityProgress("SEA", 1, 2, 2, "Available", "", stopped=1)
    assert incomplete_line("web", [done, stopped, behind[0]]) == (
        "workload web is not complete: 1 of 3 cities are not (A00)\n"
    )
    assert incomplete_line("web", [done, *behind]) == (
        "workload web is not complete: 7 of 8 cities are not (A00, A01, A02, A03, A04 and 2 more)\n"
    )
    assert incomplete_line("web", [done]) == (
        "workload web is not complete: its cities are observed until they have stayed ready long enough\n"
    )
    exited = CityProgress("LHR", 2, 2, 2, "Available", "", restarted=True)
    assert incomplete_line("web", [done, exited]) == (
        "workload web is not complete: its cities are observed until they have stayed ready long enough,"
        " 5m where an instance has restarted (LHR)\n"
    )


def test_instances_of_an_older_revision_of_the_workload_are_not_up_to_date() -> None:
    status = WorkloadDeploymentStatus(
        ready_replicas=2, updated_replicas=2, desired_replicas=2, observed_generation=1, revision="old"
    )
    template = InstanceTemplate(
        spec=InstanceTemplateSpec(InstanceRuntime(RuntimeResources("datumcloud/d1-standard-2")), [])
    )
    deployment = WorkloadDeployment(
        ObjectMeta("web-dfw", generation=1),
        spec=WorkloadDeploymentSpec(
            WorkloadReference("web", "u"), "us", "DFW", template, ScaleSettings(min_replicas=2)
        ),
        status=status,
    )
    (before,) = progress_of([deployment], "new").values()
    assert (before.ready, before.updated, before.complete) == (2, 0, False)
    (after,) = progress_of([deployment], "old").values()
    assert (after.updated, after.complete) == (2, True)
