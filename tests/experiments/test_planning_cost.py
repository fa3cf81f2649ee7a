"""experiments/planner/planning_cost.py measures the program and not the Python that starts it."""

from experiments.planner import planning_cost


def test_a_small_program_is_small_whatever_its_parent_holds(tmp_path):
    starter = planning_cost.compile_starter(tmp_path)
    ballast = bytearray(b"\1") * (200 << 20)
    _, memory = planning_cost.run(starter, ["/bin/true"])
    assert len(ballast) == 200 << 20
    assert 0 < memory < 4


def test_what_a_program_holds_is_counted(tmp_path):
    starter = planning_cost.compile_starter(tmp_path)
    # dd holds one block of this size.
    command = ["/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=50M", "count=1", "status=none"]
    _, memory = planning_cost.run(starter, command)
    assert 50 < memory < 54
