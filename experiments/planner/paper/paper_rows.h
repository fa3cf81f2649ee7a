#pragma once

#include <string>
#include <vector>

#include "atp/cli/command/text_table.h"

// The paper's number, ours, and the reason for a difference, for every figure and table that needs
// no GPU. The planner computes "ours" on request.

namespace atp::paper {

struct Row {
  std::string where;  // "Fig. 7a"
  std::string what;
  std::string paper;
  std::string ours;
  std::string why;  // "agrees", or the reason for the difference
};

std::vector<Row> table_rows();      // Tables 1 to 3
std::vector<Row> text_rows();       // sections 2.3 and 3.2, Fig. 6
std::vector<Row> matrix_rows();     // Fig. 7, equation 3
std::vector<Row> selection_rows();  // Fig. 10 and 11: IC1 to IC4
std::vector<Row> scaling_rows();    // Fig. 12: IC5 and IC6
std::vector<Row> beyond_rows();     // comparisons that the paper does not make

std::vector<Row> all_rows();

// The values of Fig. 12 by number of devices.
TextTable figure_12_table();

// What experiments/planner/paper_plots.py draws.
struct PlotTable {
  std::string name;  // "fig12"
  TextTable table;
};
std::vector<PlotTable> plot_tables();

}  // namespace atp::paper
