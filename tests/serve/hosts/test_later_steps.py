from types import SimpleNamespace

from demur.serve.contract.hosts import Step
from demur.serve.hosts.later_steps import KEPT, LaterSteps


class Counting:
    """A store of artifacts that all have a step for the model `large`."""

    def __init__(self):
        self.loaded = []

    def load(self, model, name):
        self.loaded.append(Step(model, name))
        return SimpleNamespace(name=name, further={"large": None}, check_fits=lambda identity, model: None)


def test_many_models_that_escalate_to_one_do_not_drive_out_each_other():
    store = Counting()
    later = LaterSteps("large", store, identity=None)
    steps = [Step(f"model-{number}", "in-force") for number in range(3 * KEPT)]
    for _ in range(2):
        for step in steps:
            assert later.artifact(step).name == "in-force"
    assert store.loaded == steps


def test_of_one_model_those_that_were_not_used_longest_are_forgotten():
    store = Counting()
    later = LaterSteps("large", store, identity=None)
    steps = [Step("small", str(number)) for number in range(KEPT)]
    for step in (*steps, steps[0], Step("small", "new"), steps[0]):
        later.artifact(step)
    assert store.loaded == [*steps, Step("small", "new")]
    later.artifact(steps[1])
    assert store.loaded[-1] == steps[1]
