"""The systemd units: alike where they should be, and their commands are what the program takes.

`make test-packages` starts them under a systemd (tests/packages).
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM, Process, atp, wait_until

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNITS = sorted(FOLDER.iterdir())
# What a unit may not lack, whatever else its hardening is: see systemd.exec(5).
REQUIRED = {
    *("DynamicUser=yes", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict"),
    *("ProtectHome=yes", "PrivateDevices=yes", "MemoryDenyWriteExecute=yes"),
    *("SystemCallFilter=@system-service", "RestrictNamespaces=yes"),
}


def section(path, name):
    """The settings of a section, in order, without comments."""
    text = path.read_text().partition(f"[{name}]\n")[2].partition("\n[")[0]
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def value(path, key):
    (found,) = (s.partition("=")[2] for s in section(path, "Service") if s.startswith(f"{key}="))
    return found


def test_there_is_a_unit_for_a_switch_a_server_and_a_host_of_a_cluster_file():
    assert [u.name for u in UNITS] == ["atp-server@.service", "atp-switch@.service", "atp.service"]


def hardening(path):
    settings = section(path, "Service")
    return settings[settings.index("DynamicUser=yes") :]


def test_all_units_are_hardened_alike():
    for unit in UNITS:
        assert hardening(unit) == hardening(UNITS[0]), unit.name
    assert set(hardening(UNITS[0])) >= REQUIRED


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.name)
def test_a_service_is_restarted_after_a_failure_but_not_after_a_drain_or_wrong_options(unit):
    assert value(unit, "Restart") == "on-failure"
    assert value(unit, "RestartPreventExitStatus") == "2"


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.name)
def test_a_reload_sends_the_signal_that_makes_nodes_read_their_keys_again(unit):
    assert value(unit, "ExecReload") == "/bin/sh -c 'kill -HUP $MAINPID'"


@pytest.mark.parametrize("role", ["switch", "server"])
def test_the_program_takes_the_command_and_the_options_of_the_package(role, tmp_path):
    (unit,) = (u for u in UNITS if role in u.name)
    command = shlex.split(value(unit, "ExecStart"))
    assert command[:2] == ["/usr/bin/atp", role]
    text = (FOLDER.parent / "etc" / f"{role}-main.env").read_text()
    (options,) = re.findall(rf'^ATP_{role.upper()}_OPTIONS="(.*)"$', text, re.MULTILINE)
    words = []
    for word in command[1:]:
        state = word.replace("/var/lib/%p-%i", str(tmp_path))
        words += shlex.split(options) if word == f"$ATP_{role.upper()}_OPTIONS" else [state]
    # The port may be in use on this machine.
    words = [re.sub(r":55\d\d$", ":0", word) for word in words]
    node = Process([PROGRAM, *words], tmp_path / "node.log")
    try:
        wait_until(lambda: "listening on" in node.output() or not node.running(), role)
        assert node.running(), node.output()
        wait_until((tmp_path / "stats.jsonl").exists, "the counters")
    finally:
        node.kill()


def test_the_unit_of_a_cluster_file_gives_options_that_atp_run_has():
    (unit,) = (u for u in UNITS if u.name == "atp.service")
    command = shlex.split(value(unit, "ExecStart"))
    help_text = atp("run", "--help").stdout
    options = [word for word in command if word.startswith("--")]
    assert options and all(option in help_text for option in options)
