#include "atp/config/interconnect/slurm_topology.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <vector>

#include "atp/config/text/file.h"
#include "atp/config/text/plain_text.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

using planner::Level;
using planner::LevelKind;

constexpr std::size_t kMaxNames = 65536;
constexpr double kUsualNode = 12.5e9;  // bytes per second
constexpr const char* kListExpected = "names such as tux[0-3,08-11],login1";

struct Switch {
  int line = 0;
  std::vector<std::string> nodes;
  std::vector<std::string> switches;
  bool has_parent = false;

  std::size_t children() const { return nodes.size() + switches.size(); }
};
using Switches = std::map<std::string, Switch>;

// The numbers of "0-3,08-11", with their leading zeros.
void add_numbers(std::string_view text, const Place& place, std::vector<std::string>& numbers) {
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  const auto is_number = [](std::string_view word) {
    return !word.empty() && word.size() <= 9 &&
           std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!is_number(first) || !is_number(last)) refuse(place, shown(text), kListExpected);
  const long long begin = *parse_integer(first), end = *parse_integer(last);
  if (end < begin || end - begin >= static_cast<long long>(kMaxNames)) {
    refuse(place, shown(text),
           "an ascending range of at most " + std::to_string(kMaxNames) + " numbers");
  }
  for (long long number = begin; number <= end; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
}

// Splits at commas outside of brackets.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') inside = true;
    if (i < text.size() && text[i] == ']') inside = false;
    if (i < text.size() && (text[i] != ',' || inside)) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

// The names of one part: all combinations of its brackets.
std::vector<std::string> names_of_part(std::string_view part, const Place& place) {
  std::vector<std::string> names{""};
  const std::string_view whole = part;
  if (part.empty()) refuse(place, shown(part), kListExpected);
  while (!part.empty()) {
    std::vector<std::string> tails;
    if (part.front() == '[') {
      const std::size_t end = part.find(']');
      if (end == std::string_view::npos) refuse(place, shown(whole), kListExpected);
      for (const std::string_view range : parts_of(part.substr(1, end - 1))) {
        add_numbers(range, place, tails);
      }
      part.remove_prefix(end + 1);
    } else {
      const std::size_t end = std::min(part.find('['), part.size());
      tails.emplace_back(part.substr(0, end));
      if (tails.back().find(']') != std::string::npos) refuse(place, shown(whole), kListExpected);
      part.remove_prefix(end);
    }
    if (names.size() * tails.size() > kMaxNames) {
      refuse(place, shown(whole), "at most " + std::to_string(kMaxNames) + " names");
    }
    std::vector<std::string> longer;
    longer.reserve(names.size() * tails.size());
    for (const std::string& name : names) {
      for (const std::string& tail : tails) longer.push_back(name + tail);
    }
    names = std::move(longer);
  }
  return names;
}

std::vector<std::string> names_of(std::string_view text, const Place& place) {
  std::vector<std::string> names;
  for (const std::string_view part : parts_of(text)) {
    for (std::string& name : names_of_part(part, place)) {
      if (!is_plain(name)) refuse(place, shown(name), kListExpected);
      names.push_back(std::move(name));
    }
  }
  if (names.size() <= kMaxNames) return names;
  refuse(place, std::to_string(names.size()) + " names", "at most " + std::to_string(kMaxNames));
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

void read_switch(const std::vector<std::string_view>& words, const std::string& file, int line,
                 Switches& switches) {
  constexpr std::array<std::string_view, 4> kKeys{"SwitchName", "Nodes", "Switches", "LinkSpeed"};
  std::string name;
  Switch found{.line = line};
  for (const std::string_view word : words) {
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const Place place{file, line, made_plain(key)};
    if (equals == std::string_view::npos) refuse(place, shown(word), "KEY=VALUE");
    const std::string_view value = word.substr(equals + 1);
    const std::string known = lower(key);
    if (known == "switchname") {
      const std::vector<std::string> names = names_of(value, place);
      if (names.size() != 1) refuse(place, shown(value), "the name of one switch");
      name = names.front();
    } else if (known == "nodes") {
      found.nodes = names_of(value, place);
    } else if (known == "switches") {
      found.switches = names_of(value, place);
    } else if (known != "linkspeed") {
      refuse(place, shown(key), "a key of topology/tree", hint(key, kKeys));
    }
  }
  const Place place{file, line, ""};
  if (name.empty()) refuse(place, "no SwitchName", "the name of the line's switch");
  if (found.nodes.empty() == found.switches.empty()) {
    refuse(place, found.nodes.empty() ? "neither Nodes nor Switches" : "both Nodes and Switches",
           "one of them, because a level of the planner has children of one kind");
  }
  if (!switches.emplace(name, std::move(found)).second) {
    throw FileError(place, "duplicate switch " + shown(name) + "; remove one");
  }
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  while ((begin = line.find_first_not_of(" \t\r", begin)) != std::string_view::npos) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

// Strips comments, and joins a line that ends in a backslash with the next one.
Switches switches_of(std::string_view text, const std::string& file) {
  Switches switches;
  std::string joined;
  int number = 0, first = 1;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool goes_on = line.ends_with('\\') && !text.empty();
    if (line.ends_with('\\')) line.remove_suffix(1);
    joined.append(line);
    if (goes_on) continue;
    const std::vector<std::string_view> words = fields_of(joined);
    if (!words.empty()) read_switch(words, file, first, switches);
    joined.clear();
    first = number + 1;
  }
  if (switches.empty()) refuse({file, 0, ""}, "no switch", "lines with SwitchName=");
  return switches;
}

// Checks that every switch and node belongs to exactly one switch, except for the root, whose name
// it returns.
std::string root_of(Switches& switches, const std::string& file) {
  std::map<std::string, std::string> switch_of_node;
  for (auto& [name, one] : switches) {
    const Place place{file, one.line, ""};
    for (const std::string& child : one.switches) {
      const auto found = switches.find(child);
      if (found == switches.end()) {
        refuse(place, "the switch " + shown(child), "a switch with its own line");
      }
      if (found->second.has_parent) {
        throw FileError(place, "the switch " + shown(child) + " already belongs to another one");
      }
      found->second.has_parent = true;
    }
    for (const std::string& node : one.nodes) {
      const auto [other, is_new] = switch_of_node.emplace(node, name);
      if (is_new) continue;
      throw FileError(place, "the node " + shown(node) + " already belongs to the switch " +
                                 shown(other->second));
    }
  }
  std::string root;
  for (const auto& [name, one] : switches) {
    if (one.has_parent) continue;
    if (!root.empty()) {
      refuse({file, one.line, ""}, "no switch above both " + shown(root) + " and " + shown(name),
             "a single tree; plan for the part below one of them");
    }
    root = name;
  }
  if (root.empty()) refuse({file, 0, ""}, "switches in a cycle", "one that is above all others");
  return root;
}

// The switches of one tier, all with the same number and kind of children.
using Tier = std::vector<const Switch*>;

Tier below(const Tier& tier, const Switches& switches) {
  Tier next;
  for (const Switch* one : tier) {
    for (const std::string& child : one->switches) next.push_back(&switches.at(child));
  }
  return next;
}

void check_even(const Tier& tier, const std::string& file) {
  const Switch& first = *tier.front();
  for (const Switch* one : tier) {
    if (one->nodes.size() == first.nodes.size() && one->switches.size() == first.switches.size()) {
      continue;
    }
    const auto text = [](const Switch& each) {
      const std::string kind = each.nodes.empty() ? "switch" : "node";
      const char* const ending = each.nodes.empty() ? "es" : "s";
      return std::to_string(each.children()) + " " + kind + (each.children() == 1 ? "" : ending);
    };
    refuse({file, one->line, ""}, text(*one),
           text(first) + ", like the switch on line " + std::to_string(first.line),
           "the planner needs a regular tree: plan for a part that is one");
  }
}

Level level_of(const Tier& tier, std::size_t tiers_below, std::size_t leaves, std::size_t nodes,
               const SlurmBandwidths& bandwidths) {
  Level level{.count = static_cast<std::uint32_t>(tier.front()->children()),
              .kind = LevelKind::kSwitch};
  const double children = static_cast<double>(tier.size()) * level.count;
  if (tiers_below == 0) {
    level.name = "node";
    level.bandwidth = {bandwidths.node};
    return level;
  }
  level.name = tiers_below == 1 ? "leaf switch" : "switch of tier " + std::to_string(tiers_below);
  level.bandwidth = {bandwidths.uplink > 0
                         ? bandwidths.uplink * static_cast<double>(leaves) / children
                         : bandwidths.node * static_cast<double>(nodes) / children};
  return level;
}

// The planner orders devices by the levels, which may differ from the order of their names.
std::string order_text(const Tier& leaves) {
  constexpr std::size_t kShown = 16;
  std::string text;
  std::size_t count = 0;
  for (const Switch* leaf : leaves) {
    for (const std::string& node : leaf->nodes) {
      if (count++ < kShown) text += (text.empty() ? "" : ",") + node;
    }
  }
  return "The nodes, one device each, in the planner's order: " + text +
         (count > kShown ? ",... of " + std::to_string(count) : std::string()) + ".";
}

// Says which bandwidths were given and which are defaults.
std::string bandwidths_text(const SlurmBandwidths& given, bool has_uplinks) {
  const bool node = given.node > 0, uplink = given.uplink > 0 || !has_uplinks;
  std::string text = "It contains no bandwidths: ";
  if (node && uplink) return text + "both were given.";
  if (node) {
    text +=
        "the nodes' bandwidth was given; a switch's uplinks together are assumed to be as fast as "
        "its nodes' links.";
  } else if (given.uplink > 0 && has_uplinks) {
    text += "the bandwidth above leaf switches was given; the nodes' bandwidth is typical.";
  } else {
    text +=
        "the nodes' bandwidth is typical, and a switch's uplinks together are assumed to be as "
        "fast as its nodes' links.";
  }
  return text + " Replace them with yours.";
}

Imported import_tree(std::string_view text, const std::string& file, const SlurmBandwidths& given) {
  Switches switches = switches_of(text, file);
  std::vector<Tier> tiers{{&switches.at(root_of(switches, file))}};
  std::size_t reached = 1;
  while (true) {
    check_even(tiers.back(), file);
    Tier next = below(tiers.back(), switches);
    if (next.empty()) break;
    reached += next.size();
    tiers.push_back(std::move(next));
  }
  SlurmBandwidths bandwidths = given;
  if (bandwidths.node == 0) bandwidths.node = kUsualNode;
  if (reached != switches.size()) {
    refuse({file, 0, ""}, "switches in a cycle", "a single tree with all of them");
  }
  const Tier& leaves = tiers.back();
  const std::size_t nodes = leaves.size() * leaves.front()->nodes.size();
  if (nodes < 2) refuse({file, 0, ""}, "one node", "two or more");
  Imported imported;
  imported.interconnect.name = made_plain(file.substr(file.find_last_of('/') + 1));
  for (std::size_t tier = 0; tier < tiers.size(); ++tier) {
    if (tiers[tier].front()->children() == 1) continue;  // this level offers no choice
    imported.interconnect.levels.push_back(
        level_of(tiers[tier], tiers.size() - 1 - tier, leaves.size(), nodes, bandwidths));
  }
  imported.remarks = {"Imported from " + made_plain(file) + ", a topology.conf of Slurm.",
                      bandwidths_text(given, tiers.size() > 1), order_text(leaves)};
  const Status valid = planner::validate(imported.interconnect);
  if (!valid) throw FileError({file, 0, ""}, valid.error().message);
  return imported;
}

}  // namespace

Result<Imported> import_slurm_topology(std::string_view text, const std::string& file,
                                       const SlurmBandwidths& bandwidths) {
  return read_or_error([&] { return import_tree(text, file, bandwidths); });
}

}  // namespace atp
