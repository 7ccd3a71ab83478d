"""A small city: plans are executed in steps, instances end and become ready when the test lets them."""

from __future__ import annotations

import random

from msgspec.structs import replace

from tarmac.decide.instances import InstanceView
from tarmac.decide.rollout import CityGoal, RolloutSteps, plan


def instance(
    ordinal: int, template_hash: str = "a", *, ready: bool = True, deleting: bool = False, stopped: bool = False
) -> InstanceView:
    """Return an instance with its usual name."""
    name, ready = f"web-{ordinal}", ready and not stopped
    return InstanceView(name, ordinal, template_hash, ready=ready, deleting=deleting, stopped=stopped)


class World:
    """Instances by name. `broken` templates never become ready."""

    def __init__(self, *instances: InstanceView, broken: str = "") -> None:
        self.instances = {instance.name: instance for instance in instances}
        self.broken = set(broken)

    def views(self) -> list[InstanceView]:
        """Return the views that a controller gets."""
        return list(self.instances.values())

    def live(self) -> list[InstanceView]:
        """Return the instances that are not being deleted."""
        return [instance for instance in self.instances.values() if not instance.deleting]

    def available(self) -> int:
        """Count the available instances."""
        return sum(instance.ready for instance in self.live())

    def act(self, goal: CityGoal) -> RolloutSteps:
        """Run one pass of the controller: removals begin, created instances are not ready yet."""
        steps = plan(goal, self.views())
        for removal in steps.remove:
            self.instances[removal.instance.name] = replace(removal.instance, deleting=True)
        for ordinal in steps.create:
            made = instance(ordinal, goal.template_hash, ready=False)
            assert made.name not in self.instances, "a name was used twice"
            self.instances[made.name] = made
        return steps

    def settle(self) -> None:
        """Finish deletions, and make instances ready unless their template is broken."""
        for name, view in list(self.instances.items()):
            if view.deleting:
                del self.instances[name]
            elif view.template_hash not in self.broken:
                self.instances[name] = replace(view, ready=True)

    def jolt(self, dice: random.Random) -> None:
        """Change one random instance: finish its deletion, or flip its readiness."""
        if not self.instances:
            return
        name = dice.choice(sorted(self.instances))
        view = self.instances[name]
        if view.deleting:
            del self.instances[name]
        elif view.template_hash in self.broken or dice.random() < 0.2:
            self.instances[name] = replace(view, ready=False)
        else:
            self.instances[name] = replace(view, ready=True)

    def run(self, goal: CityGoal, *, steps: int) -> int:
        """Run passes until the rollout is complete; return their number."""
        for step in range(steps):
            if self.act(goal).complete:
                return step
            self.settle()
        raise AssertionError(f"not complete after {steps} steps: {self.views()}")
