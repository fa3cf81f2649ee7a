#include "atp/cli/status/status_json.h"

#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

using Json = nlohmann::ordered_json;

// Takes the next of "job, incarnation".
std::string next_of(std::string_view& names) {
  const std::string_view name = names.substr(0, names.find(','));
  names.remove_prefix(std::min(names.size(), name.size() + 2));
  return std::string(name);
}

class Writer {
 public:
  explicit Writer(bool of_switch = false) : is_switch(of_switch) {}

  void operator()(std::string_view names, auto&... values) { (add(next_of(names), values), ...); }
  // Appended one after another: operator[] would look for each name among those before it.
  void add(const std::string& name, auto& value) {
    object.get_ref<Json::object_t&>().emplace_back(name, json_of(value));
  }

  static constexpr bool kIsReader = false;
  bool is_switch;
  Json object = Json::object();

 private:
  Json json_of(const auto& value) const
    requires std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>
  {
    return value;
  }
  Json json_of(auto& value) const
    requires requires(Writer inner) { value.describe(inner); }
  {
    Writer inner(is_switch);
    value.describe(inner);
    return std::move(inner.object);
  }
  Json json_of(std::string_view text) const { return text.empty() ? Json() : Json(text); }
  Json json_of(const RankSet& ranks) const {
    Json list = Json::array();
    ranks.for_each([&](Rank rank) { list.push_back(rank); });
    return list;
  }
  Json json_of(CounterSnapshot& counters) const {
    Writer inner;
    for (auto& [name, value] : counters) inner.add(name, value);
    return std::move(inner.object);
  }
  template <class Value>
  Json json_of(std::vector<Value>& values) const {
    Json list = Json::array();
    for (Value& value : values) list.push_back(json_of(value));
    return list;
  }
  template <class Value>
  Json json_of(std::optional<Value>& value) const {
    return value ? json_of(*value) : Json();
  }
};

void expect(bool is_so, const char* what, const Json& found) {
  if (!is_so) throw Json::type_error::create(302, std::string("expected ") + what, &found);
}

constexpr std::size_t kLongestText = 300;
constexpr std::size_t kMostInList = 1024;  // as many ranks, and as many trees of a switch
constexpr std::size_t kMostFailures = 16;

std::string plain_text(const std::string& text) { return made_plain(text.substr(0, kLongestText)); }

// Whoever uses a rank may take it for an index.
bool is_possible(const auto&) { return true; }
bool is_possible(const StuckRank& one) { return one.rank < kMaxRanks; }
bool is_possible(const RankDelay& one) { return one.rank < kMaxRanks; }

class Reader {
 public:
  explicit Reader(const Json& from) : from_(from) { expect(from.is_object(), "an object", from); }

  void operator()(std::string_view names, auto&... values) { (find(next_of(names), values), ...); }

  static constexpr bool kIsReader = true;  // of the keys of switches and servers alike
  bool is_switch = false;

 private:
  void find(const std::string& name, auto& value) const {
    const auto found = from_.find(name);
    if (found != from_.end()) read(*found, value);
  }
  template <class Value>
  void read(const Json& from, Value& value) const {
    Reader inner(from);
    value.describe(inner);
  }
  void read(const Json& from, bool& value) const { from.get_to(value); }
  void read(const Json& from, double& value) const { from.get_to(value); }
  void read(const Json& from, std::uint64_t& value) const {
    expect(from.is_number_integer() && from >= 0, "a whole number from 0", from);
    from.get_to(value);
  }
  void read(const Json& from, std::string& text) const {
    if (!from.is_null()) text = plain_text(from.get<std::string>());
  }
  void read(const Json& from, RankSet& ranks) const {
    std::vector<std::uint64_t> all;
    read(from, all);
    for (const std::uint64_t rank : all) {
      if (rank < kMaxRanks) ranks.insert(static_cast<Rank>(rank));
    }
  }
  void read(const Json& from, CounterSnapshot& counters) const {
    expect(from.is_object(), "an object", from);
    for (const auto& [name, value] : from.items()) {
      if (counters.size() == kMostInList) break;
      read(value, counters.emplace_back(plain_text(name), 0).second);
    }
  }
  template <class Value>
  void read(const Json& from, std::vector<Value>& values) const {
    expect(from.is_array(), "a list", from);
    for (const Json& one : from) {
      if (values.size() == kMostInList) break;
      Value value{};
      read(one, value);
      if (is_possible(value)) values.push_back(std::move(value));
    }
  }
  template <class Value>
  void read(const Json& from, std::optional<Value>& value) const {
    if (!from.is_null()) read(from, value.emplace());
  }

  const Json& from_;
};

}  // namespace

std::string to_json(NodeStatus status) {
  Writer writer;
  status.describe(writer);
  return writer.object.dump() + "\n";
}

nlohmann::ordered_json to_json(RankDelay delay) {
  Writer writer;
  delay.describe(writer);
  return std::move(writer.object);
}

std::string to_json_line(double time_s, std::string_view role, CounterSnapshot counters) {
  Writer writer;
  writer("time_s, role, counters", time_s, role, counters);
  return writer.object.dump() + "\n";
}

NodeStatus status_from(const nlohmann::ordered_json& document) {
  NodeStatus status;
  Reader reader(document);
  status.describe(reader);
  const bool is_status = !status.role.empty() && !status.listen.empty() && !status.version.empty();
  expect(is_status, "role, listen and version", document);
  if (status.failures.size() > kMostFailures) status.failures.resize(kMostFailures);
  return status;
}

}  // namespace atp
