#pragma once

#include <string>
#include <vector>

#include "atp/cli/command/text_table.h"
#include "experiments/planner/paper/chart.h"

// Paper, ours, and why they differ, for every figure and table that needs no GPU. "Ours" is
// computed by the planner when the rows are asked for.

namespace atp::paper {

struct Row {
  std::string where;  // "Fig. 7a"
  std::string what;
  std::string paper;
  std::string ours;
  std::string why;  // "agrees", or what makes the difference
};

std::vector<Row> table_rows();      // Tables 1 to 3
std::vector<Row> text_rows();       // sections 2.3 and 3.2, Fig. 6
std::vector<Row> matrix_rows();     // Fig. 7, equation 3
std::vector<Row> selection_rows();  // Fig. 10 and 11: IC1 to IC4
std::vector<Row> scaling_rows();    // Fig. 12: IC5 and IC6
std::vector<Row> beyond_rows();     // what the paper does not compare with

std::vector<Row> all_rows();

// The values of Fig. 12, by devices.
TextTable figure_12_table();

struct Plot {
  std::string file;  // "fig12.svg"
  std::string svg;
};
std::vector<Plot> plots();

}  // namespace atp::paper
