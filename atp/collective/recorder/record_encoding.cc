// A rank's file: the keys that torch's analyzer reads, and under "atp" and in keys that begin with
// "atp_" what only `atp report` reads.
#include <algorithm>
#include <string>
#include <string_view>

#include "atp/collective/recorder/pickle_writer.h"
#include "atp/collective/recorder/record_files.h"

namespace atp {
namespace {

// Of the fields below.
constexpr std::string_view kTorchVersion = "2.10";
constexpr int kOwnVersion = 1;

// torch's analyzer knows operations only by the names of torch's own backends; Gloo is the one for
// CPUs.
constexpr std::string_view kBackend = "gloo:";

std::string_view torch_name(std::string_view name) {
  if (name == "all_reduce_coalesced") return "allreduce_coalesced";
  if (name == "all_reduce_sparse") return "all_reduce";
  if (name == "all_gather_single") return "_all_gather_base";
  if (name == "all_gather_coalesced" || name == "all_gather_single_coalesced") {
    return "all_gather_into_tensor_coalesced";
  }
  if (name == "reduce_scatter_single") return "_reduce_scatter_base";
  if (name == "reduce_scatter_single_coalesced") return "reduce_scatter_tensor_coalesced";
  if (name == "all_to_all_single") return "all_to_all";
  if (name == "monitored_barrier") return "barrier";
  return name;
}

std::string_view state_name(Recording::State state) {
  return state == Recording::State::kCompleted ? "completed" : "started";
}

class RecordWriter {
 public:
  RecordWriter(const Recording& recording, const RecordHeader& header)
      : recording_(recording), header_(header) {}

  std::string write() && {
    out_.begin_dict();
    text("version", kTorchVersion);
    text("comm_lib_version", "atp");  // early, so that a damaged file is known to be ours
    groups_for_torch();
    out_.text("pg_status");
    out_.begin_dict();
    out_.end_dict();
    operations("entries", false);
    own();
    out_.end_dict();
    return std::move(out_).finish();
  }

 private:
  void text(std::string_view key, std::string_view value) {
    out_.text(key);
    out_.text(value);
  }
  void integer(std::string_view key, std::int64_t value) {
    out_.text(key);
    out_.integer(value);
  }
  void boolean(std::string_view key, bool value) {
    out_.text(key);
    out_.boolean(value);
  }
  void time(std::string_view key, Recording::Time value) { integer(key, wall(value)); }
  std::int64_t wall(Recording::Time value) const {
    return (value.time_since_epoch() + header_.steady_to_wall).count();
  }
  bool is_own(std::size_t group) const {
    return recording_.groups[group].info.rank == header_.rank;
  }

  // Once per name: torch's analyzer takes groups with the same name for a single group.
  void groups_for_torch() {
    out_.text("pg_config");
    out_.begin_dict();
    for (std::size_t i = 0; i < recording_.groups.size(); ++i) {
      if (!is_own(i)) continue;
      const RecordedGroupInfo& info = recording_.groups[i].info;
      out_.text(info.name);
      out_.begin_dict();
      text("name", info.name);
      text("desc", description_of(info));
      std::string ranks = "[";
      for (const std::size_t rank : info.ranks) {
        if (ranks.size() > 1) ranks += ", ";
        ranks += std::to_string(rank);
      }
      text("ranks", ranks + "]");
      out_.end_dict();
    }
    out_.end_dict();
  }

  static std::string_view description_of(const RecordedGroupInfo& info) {
    return info.description.empty() ? std::string_view("undefined") : info.description;
  }

  void operations(std::string_view key, bool transfers) {
    out_.text(key);
    out_.begin_list();
    for (const Recording::Operation& each : recording_.operations) {
      if (is_own(each.group) && each.start.is_transfer == transfers) operation(each);
    }
    out_.end_list();
  }

  void shape(std::string_view key, const RecordedShape& shape) {
    out_.text(key);
    out_.begin_list();
    if (shape.tensors > 0) {
      out_.begin_list();
      const std::size_t shown = std::min<std::size_t>(shape.dimensions, shape.sizes.size());
      for (std::size_t i = 0; i < shown; ++i) out_.integer(shape.sizes[i]);
      out_.end_list();
    }
    out_.end_list();
  }

  void types(std::string_view key, const RecordedShape& shape, std::string_view type) {
    out_.text(key);
    out_.begin_list();
    if (shape.tensors > 0) out_.text(type);
    out_.end_list();
  }

  std::string profiling_name(const Recording::Operation& each) const {
    std::string name = std::string(kBackend) + std::string(torch_name(each.start.name));
    if (!each.start.is_transfer) return name;
    const auto& ranks = recording_.groups[each.group].info.ranks;
    const auto own = std::find(ranks.begin(), ranks.end(), header_.rank) - ranks.begin();
    const bool sends = each.start.name == "send";
    const std::string peer = each.start.peer < 0 ? "any" : std::to_string(each.start.peer);
    return name + " " + std::to_string(own) + (sends ? "->" : "<-") + peer;
  }

  void operation(const Recording::Operation& each) {
    const OperationStart& start = each.start;
    const RecordedGroupInfo& group = recording_.groups[each.group].info;
    const bool completed = each.state == Recording::State::kCompleted;
    const auto number = static_cast<std::int64_t>(start.number);
    out_.begin_dict();
    integer("record_id", static_cast<std::int64_t>(each.id));
    integer("pg_id", static_cast<std::int64_t>(each.group));
    out_.text("process_group");
    out_.text(group.name);
    out_.text(description_of(group));
    out_.end_pair();
    integer("collective_seq_id", start.is_transfer ? 0 : number);
    integer("p2p_seq_id", start.is_transfer ? number : 0);
    integer("op_id", number);
    text("profiling_name", profiling_name(each));
    time("time_created_ns", each.begun);
    shape("input_sizes", start.input);
    types("input_dtypes", start.input, start.type);
    shape("output_sizes", start.output);
    types("output_dtypes", start.output, start.type);
    text("state", state_name(each.state));
    time("time_discovered_started_ns", each.begun);
    out_.text("time_discovered_completed_ns");
    completed ? out_.integer(wall(each.ended)) : out_.none();
    if (completed) {
      out_.text("duration_ms");
      out_.real(std::chrono::duration<double, std::milli>(each.ended - each.begun).count());
    }
    boolean("retired", each.state != Recording::State::kBegun);
    integer("timeout_ms", start.timeout.count());
    boolean("is_p2p", start.is_transfer);
    out_.text("frames");
    out_.begin_list();
    out_.end_list();
    text("atp_name", start.name);
    text("atp_path", start.path);
    integer("atp_tag", start.tag);
    out_.text("atp_failed_ns");
    each.state == Recording::State::kFailed ? out_.integer(wall(each.ended)) : out_.none();
    out_.end_dict();
  }

  void own() {
    out_.text("atp");
    out_.begin_dict();
    integer("format", kOwnVersion);
    integer("rank", static_cast<std::int64_t>(header_.rank));
    text("host", header_.host);
    integer("process", header_.process);
    text("reason", header_.reason);
    time("written_ns", header_.written);
    integer("overwritten_operations", static_cast<std::int64_t>(recording_.overwritten_operations));
    integer("overwritten_events", static_cast<std::int64_t>(recording_.overwritten_events));
    out_.text("groups");
    out_.begin_list();
    for (std::size_t i = 0; i < recording_.groups.size(); ++i) {
      if (is_own(i)) group(i);
    }
    out_.end_list();
    operations("transfers", true);
    out_.text("events");
    out_.begin_list();
    for (const Recording::Event& each : recording_.events) {
      if (is_own(each.group)) event(each);
    }
    out_.end_list();
    out_.end_dict();
  }

  void ranks(const std::vector<std::size_t>& list) {
    out_.text("ranks");
    out_.begin_list();
    for (const std::size_t rank : list) out_.integer(static_cast<std::int64_t>(rank));
    out_.end_list();
  }

  void group(std::size_t i) {
    const Recording::Group& group = recording_.groups[i];
    out_.begin_dict();
    integer("id", static_cast<std::int64_t>(i));
    text("name", group.info.name);
    text("description", description_of(group.info));
    text("job", group.info.job);
    ranks(group.info.ranks);
    time("opened_ns", group.opened);
    out_.text("closed_ns");
    group.closed ? out_.integer(wall(*group.closed)) : out_.none();
    text("failure", group.failure);
    out_.end_dict();
  }

  void event(const Recording::Event& each) {
    out_.begin_dict();
    time("time_ns", each.time);
    integer("group", static_cast<std::int64_t>(each.group));
    text("kind", to_string(each.kind));
    ranks(each.ranks);
    text("text", each.text);
    out_.end_dict();
  }

  const Recording& recording_;
  const RecordHeader& header_;
  PickleWriter out_;
};

}  // namespace

std::string encode_records(const Recording& recording, const RecordHeader& header) {
  return RecordWriter(recording, header).write();
}

}  // namespace atp
