"""The test programs for a file's mutants, and the CMake code that the copy adds for them."""

# A file's own folder first, then those above it, the quickest to build first.
NODES = ["core_dataplane", "core_server", "core_worker"]
TESTS_OF_FOLDER = {
    "atp/base": ["base", "wire", "core", "core_topology", *NODES],
    "atp/wire": ["wire", "core", "core_topology", *NODES],
    "atp/core": ["core", *NODES],
    "atp/core/topology": ["core_topology", "core_dataplane", "core_server"],
    "atp/core/dataplane": ["core_dataplane"],
    "atp/core/server": ["core_server"],
    "atp/core/worker": ["core_worker"],
}

# For headers that a whole folder includes: small tests of little else, built before the folder's
# tests, with the sources that they need.
TABLES = {
    "pipeline_table": (
        ("atp/core/dataplane/pipeline.h", "atp/core/dataplane/aggregator.h"),
        ("atp/core/dataplane/pipeline_test.cc", "atp/core/dataplane/aggregator_table.cc"),
    ),
    "virtual_queue_table": (
        ("atp/core/dataplane/switch_state.h",),
        ("atp/core/dataplane/virtual_queue_test.cc",),
    ),
    "fragment_ring_table": (
        ("atp/core/server/fragment_ring.h",),
        ("atp/core/server/fragment_ring_test.cc", "atp/core/server/fragment_ring.cc"),
    ),
    "loss_recovery_table": (
        ("atp/core/worker/loss_recovery.h", "atp/core/worker/send_window.h"),
        (
            "atp/core/worker/loss_recovery_test.cc",
            "atp/core/worker/loss_recovery.cc",
            "atp/core/worker/retransmission_timeout.cc",
        ),
    ),
    "packet_table": (
        ("atp/wire/packet.h",),
        ("atp/wire/packet_view_test.cc", "atp/wire/packet_view.cc"),
    ),
    "element_table": (
        ("atp/wire/element.h",),
        (
            "atp/wire/block_values_test.cc",
            "atp/wire/block_values.cc",
            "atp/wire/plain_values_test.cc",
            "atp/wire/plain_values.cc",
            "atp/wire/lanes.cc",
        ),
    ),
}


def rooms_of(file):
    return TESTS_OF_FOLDER[file.rsplit("/", 1)[0]]


def tables_of(file):
    return [program for program, (headers, _) in TABLES.items() if file in headers]


# The seeds have a separate program that links in a tenth of the time of the simulator's tests. A
# mutant in a header recompiles every source that includes it, so unchanging headers are
# precompiled.
ADDITIONS = """
add_executable(play_seeds tools/mutants/play_seeds.cc)
target_link_libraries(play_seeds PRIVATE atp_sim)
set(standard <algorithm> <array> <bit> <chrono> <cmath> <functional> <optional> <span> <string>
    <variant> <vector>)
target_precompile_headers(atp_base PRIVATE ${standard})
target_precompile_headers(atp_base_test PRIVATE ${standard} <gmock/gmock.h> <gtest/gtest.h>)
foreach(target IN ITEMS wire core core_topology core_dataplane core_server core_worker)
  target_precompile_headers(atp_${target} REUSE_FROM atp_base)
  target_precompile_headers(atp_${target}_test REUSE_FROM atp_base_test)
endforeach()
target_precompile_headers(atp_sim REUSE_FROM atp_base)
"""


def additions():
    """What the copy's CMakeLists.txt adds to the repository's."""
    text = ADDITIONS
    for program, (headers, sources) in TABLES.items():
        of_wire = headers[0].startswith("atp/wire/")
        links = "atp_base" if of_wire else "atp_core atp_wire atp_base"
        text += f"add_executable({program} {' '.join(sources)})\n"
        text += f"target_link_libraries({program} PRIVATE {links} atp_warnings GTest::gmock_main)\n"
        text += f"target_precompile_headers({program} REUSE_FROM atp_base_test)\n"
    return text
