#include "python/csrc/signals.h"

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "atp/base/interrupt.h"

namespace atp::pytorch {
namespace {

bool on_main_thread() { return gettid() == getpid(); }

// Only for the main thread. Never destroyed: the interpreter may end first.
std::optional<pybind11::error_already_set>& raised() {
  static auto* const error = new std::optional<pybind11::error_already_set>();
  return *error;
}

bool has_raised() {
  if (!on_main_thread() || Py_IsInitialized() == 0) return false;
  if (raised()) return true;
  const pybind11::gil_scoped_acquire acquired;
  if (PyErr_Occurred() != nullptr || PyErr_CheckSignals() == 0) return false;
  raised().emplace();
  return true;
}

}  // namespace

void let_signals_interrupt_waits() { set_interrupt_check(&has_raised); }

void throw_if_interrupted() {
  if (!on_main_thread() || !raised()) return;
  pybind11::error_already_set error = *raised();
  raised().reset();
  throw error;
}

}  // namespace atp::pytorch
