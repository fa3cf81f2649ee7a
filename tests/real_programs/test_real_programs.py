"""Other people's training libraries compute the same over atp as over Gloo."""

import pytest

PROGRAMS = ["train_with_lightning.py", "train_with_accelerate.py", "train_with_trainer.py"]


def alike(ours, theirs) -> bool:
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(alike(ours[k], theirs[k]) for k in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(theirs, float):
        return ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    return ours == theirs


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_training_is_the_same_as_over_gloo(run_program, program):
    over_gloo = run_program(program, "gloo")
    for algorithm in ("innetwork", "memory", "ring"):
        over_atp = run_program(program, "atp", algorithm=algorithm)
        for ours, theirs in zip(over_atp, over_gloo, strict=True):
            assert "all_reduce" in ours["summed by us"]
            for name in theirs.keys() - {"summed by us"}:
                assert alike(ours[name], theirs[name]), f"{name}: {ours[name]}, not {theirs[name]}"
            assert ours["losses"][-1] < ours["losses"][0]
