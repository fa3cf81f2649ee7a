#pragma once

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <map>
#include <string_view>
#include <vector>

#include "atp/base/variables.h"

// The table of variables and options (atp/base/variables.h), as Python objects: atp/torch takes
// from it what it accepts, and the texts of its errors.

namespace atp::pytorch {

// The rows of the table; their types, ranges and texts are nowhere else.
inline void define_variables(py::module_& module) {
  py::enum_<VariableKind>(module, "VariableKind")
      .value("TEXT", VariableKind::kText)
      .value("CHOICE", VariableKind::kChoice)
      .value("SWITCH", VariableKind::kSwitch)
      .value("WHOLE", VariableKind::kWhole)
      .value("SECONDS", VariableKind::kSeconds);
  py::class_<Variable>(module, "Variable")
      .def_readonly("name", &Variable::name)
      .def_readonly("kind", &Variable::kind)
      .def_readonly("option", &Variable::option)
      .def_readonly("meaning", &Variable::meaning)
      .def_readonly("otherwise", &Variable::otherwise)
      .def_readonly("least", &Variable::least)
      .def_readonly("most", &Variable::most)
      .def_property_readonly("expected", &expected_text)
      .def_property_readonly("choices", [](const Variable& self) {
        const auto choices = choices_of(self);
        return std::vector<std::string_view>(choices.begin(), choices.end());
      });
  module.attr("DEFAULT_JOIN_TIMEOUT") = py::cast(std::chrono::milliseconds(kDefaultJoinTimeout));
  // Those that torch reads, by name.
  std::map<std::string_view, const Variable*> read;
  for (const Variable& each : variables()) {
    if ((each.readers & kTorch) != 0) read[each.name] = &each;
  }
  module.attr("VARIABLES") = py::cast(read, py::return_value_policy::reference);
}

}  // namespace atp::pytorch
