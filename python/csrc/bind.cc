#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "python/csrc/process_group.h"

// The module atp._C: the process group as a Python class, and nothing else. The policy (where the
// route comes from, how a group agrees on its job) is Python, in atp/torch.

namespace atp::pytorch {
namespace {

class PyProcessGroupATP;

// The groups that are alive, so that a process that ends without destroying them can leave its
// jobs while callbacks may still run. A group adds itself and takes itself out first thing in its
// destructor, so a pointer in here is good as long as the lock is held. (A c10 weak pointer would
// put off the destructor itself until it is gone.)
class LiveGroups {
 public:
  void add(PyProcessGroupATP* group);
  void remove(PyProcessGroupATP* group);
  void abort_all();

 private:
  std::mutex mutex_;
  std::set<PyProcessGroupATP*> groups_;
  // A callback that drops its own group is still running when the group has gone.
  std::vector<std::weak_ptr<CompletionThread::Queue>> queues_;
};

LiveGroups& live_groups() {
  static LiveGroups groups;
  return groups;
}

// The class that Python sees. Its destructor may run on a thread that holds the GIL while a
// callback on the completion thread waits for the GIL, so it gives the GIL away first.
class PyProcessGroupATP final : public ProcessGroupATP {
 public:
  template <class... Arguments>
  explicit PyProcessGroupATP(Arguments&&... arguments)
      : ProcessGroupATP(std::forward<Arguments>(arguments)...) {
    live_groups().add(this);
  }
  ~PyProcessGroupATP() override {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      const py::gil_scoped_release release;
      leave();
    } else {
      leave();
    }
  }

 private:
  void leave() {
    live_groups().remove(this);
    stop();
  }
};

void LiveGroups::add(PyProcessGroupATP* group) {
  const std::lock_guard lock(mutex_);
  groups_.insert(group);
  std::erase_if(queues_, [](const auto& queue) { return queue.expired(); });
  queues_.push_back(group->completion_queue());
}

void LiveGroups::remove(PyProcessGroupATP* group) {
  const std::lock_guard lock(mutex_);
  groups_.erase(group);
}

void LiveGroups::abort_all() {
  std::vector<std::weak_ptr<CompletionThread::Queue>> queues;
  {
    const std::lock_guard lock(mutex_);
    for (PyProcessGroupATP* group : groups_) group->abort();
    queues = queues_;
  }
  // Not under the lock: a callback may drop a group. Nor for ever, whatever a callback may do.
  for (const auto& weak : queues) {
    if (const auto queue = weak.lock()) queue->wait_until_idle_for(std::chrono::seconds(10));
  }
}

std::unique_ptr<Communicator> connect(int rank, int size, JobKey job, const std::string& route,
                                      const std::string& route_name,
                                      std::size_t values_per_fragment, bool automatic_scale,
                                      std::chrono::milliseconds timeout,
                                      std::chrono::milliseconds join_timeout) {
  CommunicatorOptions options;
  options.job = job;
  options.rank = static_cast<Rank>(rank);
  options.world_size = static_cast<std::size_t>(size);
  options.values_per_fragment = values_per_fragment;
  options.scale_mode = automatic_scale ? ScaleMode::kAutomatic : ScaleMode::kFixed;
  options.operation_timeout = timeout;
  options.join_timeout = join_timeout;
  const Status routes = options.set_routes(route);
  TORCH_CHECK_VALUE(routes.ok(), route_name, "=\"", route, "\": ", routes.error().message);
  auto communicator = Communicator::connect(options);
  TORCH_CHECK_WITH(DistBackendError, communicator.ok(), communicator.error().message);
  return std::move(communicator.value());
}

// A group of one needs no network: its job and route are not looked at.
c10::intrusive_ptr<PyProcessGroupATP> make_group(
    int rank, int size, std::chrono::milliseconds timeout, std::chrono::milliseconds join_timeout,
    std::pair<std::uint32_t, std::uint32_t> job, const std::string& route,
    const std::string& route_name, std::size_t values_per_fragment, bool automatic_scale,
    c10::intrusive_ptr<c10d::Backend> gloo) {
  const py::gil_scoped_release release;
  std::unique_ptr<Communicator> communicator;
  if (size > 1 && !route.empty()) {
    communicator = connect(rank, size, {job.first, job.second}, route, route_name,
                           values_per_fragment, automatic_scale, timeout, join_timeout);
  }
  return c10::make_intrusive<PyProcessGroupATP>(rank, size, timeout, std::move(gloo),
                                                std::move(communicator));
}

void abort_all() {
  const py::gil_scoped_release release;
  live_groups().abort_all();
}

py::list traffic_of(const PyProcessGroupATP& group) {
  py::list rows;
  for (const TrafficRow& row : group.traffic()) {
    rows.append(py::make_tuple(row.path, row.operation, row.dtype, row.calls, row.bytes));
  }
  return rows;
}

}  // namespace
}  // namespace atp::pytorch

PYBIND11_MODULE(_C, module) {
  using atp::pytorch::PyProcessGroupATP;
  // Defines the base class, and loads the libraries that this module was linked against.
  py::module_::import("torch.distributed");

  py::class_<PyProcessGroupATP, c10d::Backend, c10::intrusive_ptr<PyProcessGroupATP>>(
      module, "ProcessGroupATP")
      .def(py::init(&atp::pytorch::make_group), py::kw_only(), py::arg("rank"), py::arg("size"),
           py::arg("timeout"), py::arg("join_timeout"), py::arg("job"), py::arg("route"),
           py::arg("route_name"), py::arg("values_per_fragment"), py::arg("automatic_scale"),
           py::arg("gloo"))
      .def_property_readonly("options", &PyProcessGroupATP::getBackendOptions)
      .def("values_per_fragment", &PyProcessGroupATP::values_per_fragment,
           py::call_guard<py::gil_scoped_release>())
      .def("traffic", &atp::pytorch::traffic_of)
      .def("counters", &PyProcessGroupATP::counters, py::call_guard<py::gil_scoped_release>());
  module.def("abort_all", &atp::pytorch::abort_all,
             "Fails what is under way in every group and leaves; for the end of the process.");
}
