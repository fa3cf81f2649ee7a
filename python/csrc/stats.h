#pragma once

#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <map>
#include <optional>

#include "python/csrc/in_network_group.h"
#include "python/csrc/peers_backend.h"

// What a group tells of itself, as the Python objects of which atp/torch makes stats().

namespace atp::pytorch {

// (operations, 32 hexadecimal digits), or None.
inline py::object digest_tuple(const std::optional<DigestReading>& reading) {
  if (!reading) return py::none();
  return py::make_tuple(reading->operations, reading->digest.text());
}

// None if there is no second path.
inline py::object tuner_counts(const InNetworkGroup& group) {
  const std::optional<TunerCounts> counts = group.tuner_counts();
  if (!counts) return py::none();
  py::dict rows;
  rows["innetwork"] = counts->operations[index_of(SumPath::kNetwork)];
  rows["ring"] = counts->operations[index_of(SumPath::kRing)];
  rows["trials"] = counts->trials;
  rows["judgements"] = counts->judgements;
  rows["changes"] = counts->changes;
  rows["ring_from_bytes"] = counts->ring_from;
  return rows;
}

inline py::list traffic_of(const PeersBackend& group) {
  py::list rows;
  for (const TrafficRow& row : group.traffic()) {
    rows.append(py::make_tuple(row.path, row.operation, row.dtype, row.calls, row.bytes));
  }
  return rows;
}

// {"ranks": [2], "seconds": 3.2, "operation": "all_reduce #17 (1,000 values)"}, or None.
template <class Group>
py::object waited_for_of(const Group& self) {
  std::optional<WaitedForRanks> waited;
  {
    const py::gil_scoped_release released;
    waited = self.waited_for();
  }
  if (!waited || waited->ranks.empty()) return py::none();
  py::dict dict;
  dict["ranks"] = waited->ranks;
  dict["seconds"] = std::chrono::duration<double>(waited->waited).count();
  dict["operation"] = waited->operation;
  return dict;
}

// {2: 12.3}: seconds by rank.
template <class Group>
py::dict waits_of(const Group& self) {
  std::map<Rank, Duration> waits;
  {
    const py::gil_scoped_release released;
    waits = self.waits();
  }
  py::dict seconds;
  for (const auto& [rank, waited] : waits) {
    seconds[py::int_(rank)] = std::chrono::duration<double>(waited).count();
  }
  return seconds;
}

}  // namespace atp::pytorch
