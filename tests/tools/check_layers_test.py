"""The layer check must notice a violation and say where it is."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "check_layers.py"


def check(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True)


def test_inward_includes_pass(tmp_path):
    result = check(
        tmp_path,
        {
            "atp/base/time.h": "#include <chrono>\n",
            "atp/core/server/server.cc": '#include "atp/core/server/server.h"\n'
            '#include "atp/core/outbox.h"\n#include "atp/base/time.h"\n#include <vector>\n',
            "atp/collective/a.cc": '#include "atp/core/worker/worker.h"\n#include <thread>\n',
            "atp/cli/node/report.h": "#include <nlohmann/json_fwd.hpp>\n",
            "atp/cli/run/job.cc": '#include "atp/driver/udp/socket.h"\n#include <iostream>\n',
            "tests/e2e/e2e_test.cc": '#include "atp/cli/command/command.h"\n',
            "atp/core/worker/worker_test.cc": "#include <sstream>\n",
        },
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param("atp/base/x.h", '#include "atp/wire/packet.h"', id="base includes nothing"),
        pytest.param("atp/wire/x.h", '#include "atp/core/outbox.h"', id="wire does not see core"),
        pytest.param(
            "atp/core/server/x.cc", '#include "atp/core/worker/w.h"', id="siblings in core"
        ),
        pytest.param("atp/core/x.h", '#include "atp/core/server/s.h"', id="core sees no subfolder"),
        pytest.param("atp/driver/udp/x.cc", '#include "atp/driver/tcp/y.h"', id="driver to driver"),
        pytest.param(
            "atp/planner/x.cc", '#include "atp/core/worker/w.h"', id="planner sees no core"
        ),
        pytest.param(
            "atp/config/site/x.cc", '#include "atp/planner/mesh.h"', id="a site needs no planner"
        ),
        pytest.param("atp/cli/run/x.cc", '#include "atp/cli/plan/p.h"', id="siblings in cli"),
        pytest.param(
            "examples/x.cc", '#include "atp/cli/command/command.h"', id="nothing includes cli"
        ),
        pytest.param("python/csrc/x.cc", '#include "atp/core/outbox.h"', id="python is thin"),
        pytest.param(
            "atp/core/x.cc", '#include "tests/virtual_network/n.h"', id="product sees tests"
        ),
        pytest.param("atp/nowhere/x.cc", "#include <vector>", id="unknown component"),
        pytest.param("atp/core/x.cc", "#  include <thread>", id="no thread in core"),
        pytest.param("atp/cli/x.h", "#include <nlohmann/json.hpp>", id="json in a header"),
        pytest.param("explore/x.h", "#include <xxhash.h>", id="xxhash in a header"),
        pytest.param("atp/wire/x.h", "#include <iostream>", id="no stream in wire"),
        pytest.param("atp/core/x.cc", "auto t = std::chrono::steady_clock::now();", id="no clock"),
    ],
)
def test_violation_is_named_with_file_and_line(tmp_path, path, line):
    result = check(tmp_path, {path: "#pragma once\n" + line + "\n"})
    assert result.returncode == 1
    expected_line = 1 if "nowhere" in path else 2
    assert f"{path}:{expected_line}: " in result.stderr


def test_relative_include_cannot_dodge_the_rule(tmp_path):
    result = check(tmp_path, {"atp/base/a.h": "", "atp/base/b.h": '#include "a.h"\n'})
    assert result.returncode == 1
    assert "atp/base/b.h:1: " in result.stderr
