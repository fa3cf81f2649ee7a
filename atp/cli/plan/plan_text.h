#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "atp/cli/command/text_table.h"
#include "atp/planner/planner.h"

// A plan as sentences and tables.

namespace atp {

std::string duration_for_people(double seconds);                   // "3.25 ms"
std::string bytes_for_people(double bytes);                        // "1.2 GB"
std::string counted(std::uint64_t number, std::string_view noun);  // "1 device", "8 devices"
std::string collective_text(planner::Collective collective);       // "ring", or "-" for none
// "2x4 . 1x2": the split of each level, top to bottom, into dimension 1 x dimension 2.
std::string layout_text(const planner::MeshLayout& layout);

// The request: devices, model, tokens, mode.
std::string request_text(const planner::Request& request, const planner::Plan& plan);
// The recommendation in a sentence or two: the mesh or plain 1-D, its collectives, its time.
std::string verdict_text(const planner::Request& request, const planner::Plan& plan);
// The bottleneck, and what would change the answer.
std::string reasons_text(const planner::Request& request, const planner::Plan& plan);
// Everything about one mesh.
std::string candidate_text(const planner::Request& request, const planner::Candidate& candidate);

TextTable mesh_table(const planner::Plan& plan);  // for people
// The meshes that cannot run the model, with all reasons.
std::string rejected_text(const planner::Plan& plan);
TextTable mesh_csv(const planner::Plan& plan);  // raw numbers, rejected meshes too

}  // namespace atp
