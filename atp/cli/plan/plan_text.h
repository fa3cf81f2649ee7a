#pragma once

#include <string>

#include "atp/cli/command/text_table.h"
#include "atp/planner/planner.h"

// A plan in words and tables.

namespace atp {

std::string mesh_text(const planner::Mesh& mesh);             // "(4,2)"
std::string duration_for_people(double seconds);              // "3.25 ms"
std::string bytes_for_people(double bytes);                   // "1.2 GB"
std::string collective_text(planner::Collective collective);  // "ring", or "-" for none
// "2x4 . 1x2": how each level, top to bottom, is split into dimension 1 x dimension 2.
std::string layout_text(const planner::MeshLayout& layout);

// What was asked: devices, model, tokens, mode.
std::string request_text(const planner::Request& request, const planner::Plan& plan);
// What to do, in a sentence or two: the mesh, its collectives, its time; "plain 1-D" when it is.
std::string verdict_text(const planner::Request& request, const planner::Plan& plan);
// The bottleneck, and what would change the answer.
std::string reasons_text(const planner::Request& request, const planner::Plan& plan);
// All there is to say of one mesh.
std::string candidate_text(const planner::Request& request, const planner::Candidate& candidate);

TextTable mesh_table(const planner::Plan& plan);  // for people
// The meshes that cannot run the model, each with all the reasons.
std::string rejected_text(const planner::Plan& plan);
TextTable mesh_csv(const planner::Plan& plan);  // raw numbers, rejected meshes too

}  // namespace atp
