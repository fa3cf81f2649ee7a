#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/interrupt.h"
#include "atp/base/variable_names.h"
#include "atp/collective/hierarchy.h"
#include "atp/collective/recorder/record_files.h"
#include "python/csrc/in_network_group.h"
#include "python/csrc/live_groups.h"
#include "python/csrc/measured.h"
#include "python/csrc/metrics_server.h"
#include "python/csrc/peer_requests.h"
#include "python/csrc/reconfigurable_group.h"
#include "python/csrc/signals.h"
#include "python/csrc/stats.h"
#include "python/csrc/variable_rows.h"

// The module atp._C: the process groups as Python classes, and nothing else. The policy (the source
// of the route, how a group agrees on its job) is in Python, in atp/torch.

namespace atp::pytorch {
namespace {

using std::chrono::milliseconds;

// The class exposed to Python. Its last reference may be dropped on a thread that holds the GIL
// while a callback on the completion thread waits for the GIL, so it leaves without the GIL.
template <class Group>
class PyGroup final : public Group {
 public:
  using Group::Group;
  ~PyGroup() override { leave(); }
  // When the last reference is gone: the destructor also waits for the weak ones.
  void release_resources() override { leave(); }

 private:
  void leave() {
    if (std::exchange(has_left_, true)) return;
    std::optional<py::gil_scoped_release> released;
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released.emplace();
    LiveGroups::instance().remove(this);
    this->stop();
  }

  bool has_left_ = false;
};

template <class Group, class... Arguments>
c10::intrusive_ptr<Group> make_live(Arguments&&... arguments) {
  auto group = c10::make_intrusive<Group>(std::forward<Arguments>(arguments)...);
  LiveGroups::instance().add(group);
  return group;
}

using PyInNetworkGroup = PyGroup<InNetworkGroup>;

// Throws ValueError if the route cannot be parsed.
void read_route(CommunicatorOptions& options, const std::string& route,
                const std::string& route_name) {
  const Status routes = options.set_routes(route);
  TORCH_CHECK_VALUE(routes.ok(), route_name, "=\"", route, "\": ", routes.error().message);
}

void check_route(const std::string& route, const std::string& route_name) {
  CommunicatorOptions options;
  read_route(options, route, route_name);
}

// The key in this rank's file; none without ATP_KEY_FILE.
std::optional<Tenant> own_key() {
  CommunicatorOptions options;
  const Status key = options.read_key();
  TORCH_CHECK_VALUE(key.ok(), key.error().message);
  if (!options.key) return std::nullopt;
  return std::get<Tenant>(*options.key);
}

// The keys of a group's job, and of the one that takes its place if the ranks of a host share no
// memory.
std::string keys_of_job(const Tenant& tenant, std::uint32_t job) {
  return text_of(keys_of_jobs(tenant, std::array{job, job_of_all_ranks({job, 0}).job}));
}

// `job_keys`: from rank 0, for a rank without a file; empty: there are none.
void read_key(CommunicatorOptions& options, const std::string& job_keys) {
  const Status key = options.read_key();
  TORCH_CHECK_VALUE(key.ok(), key.error().message);
  if (options.key || job_keys.empty()) return;
  const Status available = macs_available();
  TORCH_CHECK_VALUE(available.ok(), available.error().message);
  Result<JobKeys> given = parse_job_keys(job_keys);
  TORCH_CHECK_VALUE(given.ok(), given.error().message);
  options.key = std::move(given).value();
}

std::unique_ptr<Communicator> connect(CommunicatorOptions options, const std::string& job_keys) {
  const Status ports = options.read_ports();
  TORCH_CHECK_VALUE(ports.ok(), ports.error().message);
  read_key(options, job_keys);
  const Status server = options.read_colocated_server();
  TORCH_CHECK_VALUE(server.ok(), server.error().message);
  auto communicator = Communicator::connect(options);
  throw_if_interrupted();
  TORCH_CHECK_WITH(DistBackendError, communicator.ok(), communicator.error().message);
  return std::move(communicator.value());
}

// The format by its name in atp/torch/_options.py.
NumberFormat number_format(const std::string& name) {
  if (name == "fixed") return NumberFormat::kFixed;
  if (name == "blocks") return NumberFormat::kBlocks;
  if (name == "int16") return NumberFormat::kBlocksInt16;
  TORCH_CHECK_VALUE(name == "exact", "\"", name,
                    "\" is not \"fixed\", \"blocks\", \"int16\" or \"exact\"");
  return NumberFormat::kExact;
}

// A group of one needs no network and no route; a given route must still be valid.
c10::intrusive_ptr<PyInNetworkGroup> make_in_network_group(
    int rank, int size, milliseconds timeout, milliseconds join_timeout,
    std::pair<std::uint32_t, std::uint32_t> job, const std::string& route,
    const std::string& route_name, std::size_t values_per_fragment, const std::string& numbers,
    const std::string& overflow, const std::string& congestion, bool digest,
    std::uint64_t digest_every, bool host_memory, const std::vector<std::size_t>& host_of,
    const std::string& job_keys, std::shared_ptr<Interruption> interruption,
    std::shared_ptr<RecordedGroup> recorded) {
  const py::gil_scoped_release release;
  std::unique_ptr<Communicator> communicator;
  CommunicatorOptions options;
  if (size > 1) {
    if (!route.empty() || !host_memory) read_route(options, route, route_name);
    options.host_memory = host_memory;
    options.host_of = host_of;
    options.type_name = type_name;
    options.recorded = std::move(recorded);
    options.interruption = std::move(interruption);
    options.job = {job.first, job.second};
    options.rank = static_cast<Rank>(rank);
    options.world_size = static_cast<std::size_t>(size);
    options.values_per_fragment = values_per_fragment;
    options.congestion = congestion_of(congestion);
    options.overflow = overflow_of(overflow);
    options.number_format = number_format(numbers);
    options.digest = digest;
    options.digest_every = digest_every;
    options.operation_timeout = timeout;
    options.join_timeout = join_timeout;
    communicator = connect(std::move(options), job_keys);
  }
  return make_live<PyInNetworkGroup>(rank, size, timeout, std::move(communicator),
                                     number_format(numbers));
}

// For sums around a ring.
c10::intrusive_ptr<PyInNetworkGroup> make_without_network(int rank, int size,
                                                          milliseconds timeout) {
  const py::gil_scoped_release release;
  return make_live<PyInNetworkGroup>(rank, size, timeout, nullptr, NumberFormat::kBlocks);
}

template <class Group>
c10::intrusive_ptr<c10d::Work> average_segments(Group& group, const at::Tensor& tensor,
                                                const std::vector<std::size_t>& lengths,
                                                const std::string& numbers) {
  const py::gil_scoped_release release;
  std::optional<NumberFormat> format;
  if (!numbers.empty()) format = number_format(numbers);
  return group.average_segments(tensor, lengths, format);
}

std::optional<DigestReading> final_digest(PyInNetworkGroup& group, bool restart) {
  const py::gil_scoped_release release;
  return group.final_digest(restart);
}

// Listens on a port that ATP_PORT_RANGE allows.
std::shared_ptr<TcpListener> make_listener(const std::string& host) {
  CommunicatorOptions options;
  const Status ports = options.read_ports();
  TORCH_CHECK_VALUE(ports.ok(), ports.error().message);
  Result<TcpListener> listener = TcpListener::open(host + ":0", options.ports);
  TORCH_CHECK_WITH(DistBackendError, listener.ok(), listener.error().message);
  return std::make_shared<TcpListener>(std::move(listener).value());
}

// The connections of a rank that no group owns yet, so that they can be measured first.
class StartedPeers {
 public:
  StartedPeers(std::shared_ptr<Peers> peers, NumberFormat format)
      : peers_(std::move(peers)), format_(format) {}

  // Connects this rank with its neighbours in a ring.
  void connect(milliseconds timeout, const MaybeInterruption& interruption) {
    CollectiveRequest request = request_of(Collective::kAllReduce, at::kByte);
    request.around_ring = true;
    const Status ended = sum({}, std::move(request), timeout, interruption);
    throw_if_interrupted();
    TORCH_CHECK_WITH(DistBackendError, ended.ok(), ended.error().message);
  }
  std::int64_t nanoseconds_of(std::size_t values, std::size_t rounds, milliseconds timeout,
                              const MaybeInterruption& interruption) {
    const std::vector<std::byte> zeros(sizeof(float) * values);
    const auto shortest = shortest_of(rounds, timeout, [&](milliseconds left) {
      CollectiveRequest request = request_of(Collective::kAllReduce, at::kFloat);
      request.format = format_;
      return sum(zeros, std::move(request), left, interruption);
    });
    return shortest.count();
  }
  std::shared_ptr<Peers> get() const { return peers_; }
  // They have failed, and others will take their place.
  void abort() { peers_->abort("its ranks could not connect"); }

 private:
  Status sum(std::vector<std::byte> zeros, CollectiveRequest request, milliseconds timeout,
             const MaybeInterruption& interruption) {
    const auto kept = std::make_shared<std::vector<std::byte>>(std::move(zeros));
    request.reduction = ElementReduction::kSum;
    request.outputs = {*kept};
    request.timeout = timeout;
    request.on_done = [kept](const Status&) {};  // it goes on after an interruption
    return peers_->submit(std::move(request)).wait_or_interrupted(interruption);
  }

  const std::shared_ptr<Peers> peers_;
  const NumberFormat format_;
};

// Connects to no rank: ranks connect when they first need to. A group of one has no listener.
std::unique_ptr<StartedPeers> start_peers(int rank, int size, milliseconds timeout,
                                          std::uint64_t token, std::vector<std::size_t> names,
                                          std::shared_ptr<TcpListener> listener,
                                          const std::vector<std::string>& addresses,
                                          const std::string& numbers,
                                          std::shared_ptr<RecordedGroup> recorded) {
  PeerOptions options;
  options.recorded = std::move(recorded);
  options.rank = static_cast<std::size_t>(rank);
  options.world_size = static_cast<std::size_t>(size);
  options.token = token;
  options.wording = {.ranks = std::move(names), .type_name = type_name};
  options.operation_timeout = timeout;
  Result<std::vector<Endpoint>> endpoints = resolve_addresses(addresses);
  TORCH_CHECK_WITH(DistBackendError, endpoints.ok(), endpoints.error().message);
  auto peers = Peers::start(std::move(listener), options, std::move(endpoints).value());
  TORCH_CHECK_WITH(DistBackendError, peers.ok(), peers.error().message);
  return std::make_unique<StartedPeers>(std::move(peers).value(), number_format(numbers));
}

// (latency in nanoseconds, picoseconds per byte) of the network and of the ring.
using PyFigures = std::pair<std::uint64_t, std::uint64_t>;

void add_ring(PyInNetworkGroup& group, const PyFigures& network, const PyFigures& of_ring,
              std::uint64_t judged_every) {
  group.add_ring(
      {CostModel{network.first, network.second}, CostModel{of_ring.first, of_ring.second}},
      judged_every);
}

// The place of a group in the flight recorder; None if it is off. Throws ValueError if its
// variables cannot be parsed.
std::shared_ptr<RecordedGroup> open_record(std::string name,
                                           std::pair<std::uint32_t, std::uint32_t> job,
                                           std::size_t rank, std::vector<std::size_t> ranks) {
  const Result<RecorderSettings> settings = RecorderSettings::from_environment();
  TORCH_CHECK_VALUE(settings.ok(), settings.error().message);
  return RecordedGroup::open({.name = std::move(name),
                              .job = std::to_string(job.first) + "/" + std::to_string(job.second),
                              .rank = rank,
                              .ranks = std::move(ranks)});
}

// If `folder` is empty, the environment decides where the files go.
std::vector<std::string> write_records_to(const std::string& folder) {
  std::string prefix = record_prefix(folder);
  if (folder.empty()) prefix = RecorderSettings::of_process().prefix;
  TORCH_CHECK_VALUE(!prefix.empty(), "no folder: give one, or set ATP_FLIGHT_RECORDER");
  Result<std::vector<std::string>> written = write_records(prefix, "asked for");
  TORCH_CHECK_WITH(DistBackendError, written.ok(), "flight recorder: ", written.error().message);
  return std::move(written).value();
}

void abort_all() {
  const py::gil_scoped_release release;
  LiveGroups::instance().abort_all();
}

// A Python function that C++ keeps. If the interpreter ends before the group does, the function is
// left alone.
std::shared_ptr<py::object> kept_function(py::object function) {
  return {new py::object(std::move(function)), [](py::object* kept) {
            if (Py_IsInitialized() == 0) return;
            const py::gil_scoped_acquire acquired;
            delete kept;
          }};
}

// `make`: a Python function with the parameters of MakeSplit.
template <class Group>
void set_split(Group& group, py::object make) {
  group.set_split([kept = kept_function(std::move(make))](
                      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                      int rank, const std::string& name, milliseconds timeout) {
    const py::gil_scoped_acquire acquired;
    return (*kept)(store, ranks, rank, name, timeout).cast<c10::intrusive_ptr<c10d::Backend>>();
  });
}

template <class Group, class Class>
Class& define_common(Class& group) {
  group.def_property_readonly("options", &Group::getBackendOptions)
      .def_property("choice", &Group::choice, &Group::set_choice)
      .def("average_segments", &average_segments<Group>, py::arg("tensor"), py::arg("lengths"),
           py::arg("numbers"))
      .def(
          "set_peers", [](Group& self, const StartedPeers& peers) { self.set_peers(peers.get()); },
          py::arg("peers"))
      .def("set_recorded", &Group::set_recorded, py::arg("recorded"))
      .def(
          "sum_around_ring",
          [](Group& self, const std::string& numbers) {
            self.sum_around_ring(number_format(numbers));
          },
          py::arg("numbers"))
      .def_property_readonly("sums_around_ring", &Group::sums_around_ring)
      // In torch 2.13 no base class has it.
      .def("get_error", &Group::getError, py::call_guard<py::gil_scoped_release>())
      .def("set_split", &set_split<Group>, py::arg("make"))
      .def("values_per_fragment", &Group::values_per_fragment,
           py::call_guard<py::gil_scoped_release>())
      .def("waited_for", [](const Group& self) { return waited_for_of(self); })
      .def("waits", [](const Group& self) { return waits_of(self); })
      .def("traffic", [](const Group& self) { return traffic_of(self); })
      .def("counters", &Group::counters, py::call_guard<py::gil_scoped_release>());
  return group;
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
// `make`: a Python function with the parameters of ReconfigurableGroup::Make.
c10::intrusive_ptr<ReconfigurableGroup> make_reconfigurable_group(int rank, int size,
                                                                  milliseconds timeout,
                                                                  std::string handle,
                                                                  py::object make) {
  return c10::make_intrusive<ReconfigurableGroup>(
      rank, size, timeout, std::move(handle),
      [kept = kept_function(std::move(make))](std::int64_t uuid, int own_rank, int ranks,
                                              milliseconds within) {
        const py::gil_scoped_acquire acquired;
        return (*kept)(uuid, own_rank, ranks, within).cast<ReconfigurableGroup::Member>();
      });
}

void define_reconfigurable_group(py::module_& module) {
  py::class_<ReconfigurableGroup, c10d::Backend, c10::intrusive_ptr<ReconfigurableGroup>>(
      module, "ReconfigurableGroup")
      .def(py::init(&make_reconfigurable_group), py::kw_only(), py::arg("rank"), py::arg("size"),
           py::arg("timeout"), py::arg("handle"), py::arg("make"))
      .def_property_readonly("options", &ReconfigurableGroup::getBackendOptions)
      .def("member", &ReconfigurableGroup::member);
}
#endif

template <class Group>
using Binding = py::class_<Group, c10d::Backend, c10::intrusive_ptr<Group>>;

void define_in_network_group(py::module_& module) {
  Binding<PyInNetworkGroup> in_network(module, "InNetworkGroup");
  in_network.def(py::init(&make_in_network_group), py::kw_only(), py::arg("rank"), py::arg("size"),
                 py::arg("timeout"), py::arg("join_timeout"), py::arg("job"), py::arg("route"),
                 py::arg("route_name"), py::arg("values_per_fragment"), py::arg("numbers"),
                 py::arg("overflow"), py::arg("congestion"), py::arg("digest"),
                 py::arg("digest_every"), py::arg("host_memory"), py::arg("host_of"),
                 py::arg("job_keys"), py::arg("interruption"), py::arg("recorded"));
  in_network.def_static("without_network", &make_without_network, py::kw_only(), py::arg("rank"),
                        py::arg("size"), py::arg("timeout"));
  define_common<PyInNetworkGroup>(in_network);
  in_network.def("digest",
                 [](const PyInNetworkGroup& self) { return digest_tuple(self.digest()); });
  in_network.def(
      "final_digest",
      [](PyInNetworkGroup& self, bool restart) {
        return digest_tuple(final_digest(self, restart));
      },
      py::arg("restart"));

  in_network.def(
      "measure",
      [](PyInNetworkGroup& self, std::size_t values, std::size_t rounds, milliseconds timeout,
         std::shared_ptr<Interruption> interruption) {
        return self.measure(values, rounds, timeout, interruption).count();
      },
      py::arg("values"), py::arg("rounds"), py::arg("timeout"), py::arg("interruption"),
      py::call_guard<py::gil_scoped_release>());
  in_network.def("add_ring", &add_ring, py::arg("network_figures"), py::arg("ring_figures"),
                 py::arg("judged_every"), py::call_guard<py::gil_scoped_release>());
  in_network.def("tuner_counts", [](const PyInNetworkGroup& self) { return tuner_counts(self); });
}

void define_peers(py::module_& module) {
  py::class_<atp::TcpListener, std::shared_ptr<atp::TcpListener>>(module, "Listener")
      .def(py::init(&make_listener), py::arg("host"))
      .def_property_readonly(
          "address", [](const atp::TcpListener& self) { return to_string(self.address()); });
  py::class_<StartedPeers>(module, "Peers")
      .def(py::init(&start_peers), py::kw_only(), py::arg("rank"), py::arg("size"),
           py::arg("timeout"), py::arg("token"), py::arg("names"), py::arg("listener"),
           py::arg("addresses"), py::arg("numbers"), py::arg("recorded"),
           py::call_guard<py::gil_scoped_release>())
      .def("connect", &StartedPeers::connect, py::arg("timeout"), py::arg("interruption"),
           py::call_guard<py::gil_scoped_release>())
      .def("abort", &StartedPeers::abort, py::call_guard<py::gil_scoped_release>())
      .def("measure", &StartedPeers::nanoseconds_of, py::arg("values"), py::arg("rounds"),
           py::arg("timeout"), py::arg("interruption"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace
}  // namespace atp::pytorch

PYBIND11_MODULE(_C, module) {
  using namespace atp::pytorch;  // NOLINT: nothing else is defined here
  // Defines the base class, and loads the libraries that this module was linked against.
  py::module_::import("torch.distributed");
  let_signals_interrupt_waits();

  module.def("check_route", &check_route, py::arg("route"), py::arg("route_name"),
             py::call_guard<py::gil_scoped_release>());
  py::class_<atp::Tenant>(module, "Tenant")
      .def_property_readonly("mark", &atp::mark_of)
      .def("keys_of_job", &keys_of_job, py::arg("job"));
  module.def("own_key", &own_key);
  module.def("untold_misspelt_variables", &atp::untold_misspelt_variables,
             "sentences; for one rank of each host, once, unless `atp run` has named them");
  py::class_<MetricsServer>(module, "MetricsServer")
      .def(py::init<const std::string&, const std::vector<std::string>&,
                    std::function<std::string()>>(),
           py::arg("at"), py::arg("names"), py::arg("text"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("address", &MetricsServer::address)
      .def("stop", &MetricsServer::stop, py::call_guard<py::gil_scoped_release>());
  py::class_<atp::Interruption, std::shared_ptr<atp::Interruption>>(module, "Interruption")
      .def(py::init())
      .def("set", &atp::Interruption::set, py::arg("why"));
  py::class_<atp::RecordedGroup, std::shared_ptr<atp::RecordedGroup>>(module, "RecordedGroup");
  module.def("open_record", &open_record, py::kw_only(), py::arg("name"), py::arg("job"),
             py::arg("rank"), py::arg("ranks"), py::call_guard<py::gil_scoped_release>());
  module.def("write_records", &write_records_to, py::arg("folder"),
             py::call_guard<py::gil_scoped_release>());
  py::class_<GroupOptions, c10d::Backend::Options, c10::intrusive_ptr<GroupOptions>>(module,
                                                                                     "GroupOptions")
      .def("__deepcopy__", [](const GroupOptions& self, const py::dict& /*memo*/) {
        return c10::make_intrusive<GroupOptions>(self);
      });
  define_variables(module);
  define_in_network_group(module);
  define_peers(module);
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  define_reconfigurable_group(module);
#endif

  module.def("abort_all", &abort_all,
             "Fails the operations in progress of every group and leaves; for the process's end.");
}
