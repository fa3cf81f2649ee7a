#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "tests/virtual_network/scenario.h"

// docs/inside/protocol draws a tree, and the life of one fragment on it: the same tree is
// simulated, and its packets and the switches' decisions must be those of the drawing.

namespace atp::sim {
namespace {

using testing::UnorderedElementsAre;

// A packet ("A>C {0,1}") or a decision ("C ATP_CLAIMED") of the drawing.
using Lines = std::vector<std::string>;

std::string page() {
  const auto path =
      std::filesystem::path(__FILE__).parent_path() / "../../docs/inside/protocol/README.md";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Drawing {
  Lines up;         // GRADIENTs, from the top of the drawing down
  Lines decisions;  // about them, and about the PARAMETER
};

// A line of a GRADIENT names its rank, and then each node that it reaches with the decision there.
Drawing drawing() {
  const std::string text = page();
  std::size_t at = text.find("   time   ranks 0");
  std::istringstream lines(text.substr(at, text.find("```", at) - at));
  const std::regex word(R"(\b([0-3]): |G(\{[^}]*\})|\b([ABC])\b|(ATP_[A-Z_]+)|(complete))");
  Drawing found;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("ranks 0") != std::string::npos) continue;
    const bool is_down = line.find("G{") == std::string::npos;
    std::vector<std::string> nodes;
    if (is_down && line.find("PARAMETER") != std::string::npos) nodes = {"C"};
    std::string carried;
    for (std::sregex_iterator each(line.begin(), line.end(), word), end; each != end; ++each) {
      const std::smatch& match = *each;
      if (match[1].matched) nodes = {match[1]};
      if (match[2].matched) {
        if (!carried.empty()) {  // a switch sends it up
          const std::string above = nodes[0] == "C" ? "server" : "C";
          found.up.push_back(nodes[0] + ">" + above + " " + match[2].str());
          nodes = {above};
        }
        carried = match[2];
      }
      if (match[3].matched && is_down) nodes.push_back(match[3]);
      if (match[3].matched && !is_down) {
        found.up.push_back(nodes[0] + ">" + match[3].str() + " " + carried);
        nodes = {match[3]};
      }
      if (match[4].matched) {
        for (const std::string& node : nodes)
          found.decisions.push_back(node + " " + match[4].str());
      }
      if (match[5].matched) found.decisions.push_back(nodes[0] + " complete");
    }
  }
  return found;
}

std::string ranks_text(std::uint64_t ranks) {
  if (ranks == 0b1111) return "{0…3}";
  std::string text;
  for (int rank = 0; rank < 4; ++rank) {
    if ((ranks >> rank & 1) != 0) text += (text.empty() ? "" : ",") + std::to_string(rank);
  }
  return "{" + text + "}";
}

Plan plan_of_the_drawing() {
  Plan plan = small_plan(4, {4});
  plan.jobs[0].operations[0].spec.type = DataType::kInt32;
  plan.switches = 3;  // A, B, C
  plan.jobs[0].parent = {0, 0, 1, 1};
  plan.jobs[0].uplink = {2, 2, -1};
  return plan;
}

TEST(OneFragment, LivesAsTheProtocolPageDraws) {
  World world(plan_of_the_drawing());
  std::map<std::string, std::string> names = {
      {to_string(world.endpoint(world.server_host())), "server"}};
  const char* const switches[] = {"A", "B", "C"};
  for (std::uint32_t i = 0; i < 3; ++i) {
    names[to_string(world.endpoint(world.switch_host(i)))] = switches[i];
  }
  for (Rank rank = 0; rank < 4; ++rank) {
    names[to_string(world.endpoint(world.worker_host(rank)))] = std::to_string(rank);
  }
  Lines up;
  Lines down;
  world.set_tap([&](const Packet& packet) -> Verdict {
    const std::string from = names.at(to_string(packet.from));
    const std::string to = names.at(to_string(packet.to));
    const std::uint64_t ranks = atp_load64(packet.bytes.data() + ATP_HEADER_BYTES);
    if (is(packet, PacketType::kGradient)) up.push_back(from + ">" + to + " " + ranks_text(ranks));
    if (is(packet, PacketType::kParameter)) down.push_back(from + ">" + to);
    return {};
  });
  expect_all_done(world);

  Lines decisions;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Counters<SwitchCounter>& counters = world.switch_node(i).counters();
    const auto decided = [&](const char* reason, SwitchCounter counter) {
      decisions.insert(decisions.end(), counters[counter],
                       switches[i] + (" " + std::string(reason)));
    };
    decided("ATP_CLAIMED", SwitchCounter::kGradientsSummed);
    decided("ATP_COMPLETED", SwitchCounter::kCompleteSumsSent);
    decided("ATP_RELEASED", SwitchCounter::kReleases);
  }
  decisions.push_back("server complete");

  const Drawing drawn = drawing();
  EXPECT_THAT(up, testing::UnorderedElementsAreArray(drawn.up));
  EXPECT_THAT(decisions, testing::UnorderedElementsAreArray(drawn.decisions));
  EXPECT_THAT(down, UnorderedElementsAre("server>C", "C>A", "C>B", "A>0", "A>1", "B>2", "B>3"));
}

}  // namespace
}  // namespace atp::sim
