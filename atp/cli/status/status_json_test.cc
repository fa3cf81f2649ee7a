#include "atp/cli/status/status_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "atp/cli/status/status_dialogue.h"
#include "atp/cli/status/status_table.h"

namespace atp {
namespace {

using Json = nlohmann::ordered_json;

// Gives each value that describe() lists another one, none of them the default.
struct Filler {
  bool is_switch;
  std::uint64_t next = 1;
  static constexpr bool kIsReader = true;

  void operator()(const char*, auto&... values) { (fill(values), ...); }

  void fill(std::uint64_t& value) { value = next++; }
  void fill(double& value) { value = static_cast<double>(next++) + 0.5; }
  void fill(bool& value) { value = true; }
  void fill(std::string& text) {
    if (text.empty()) text = "text " + std::to_string(next++);
  }
  void fill(RankSet& ranks) { ranks = RankSet::of(static_cast<Rank>(next++)); }
  void fill(CounterSnapshot& counters) { counters = {{"b", next++}, {"a", next++}}; }
  template <class Value>
  void fill(std::vector<Value>& values) {
    values.resize(2);
    for (Value& value : values) fill(value);
  }
  template <class Value>
  void fill(std::optional<Value>& value) {
    fill(value.emplace());
  }
  template <class Value>
  void fill(Value& value) {
    value.describe(*this);
  }
};

NodeStatus full_status(const std::string& role) {
  NodeStatus status{.role = role};
  Filler(role == "switch").fill(status);
  return status;
}

TEST(StatusJson, OfEitherNodeIsReadBackEqual) {
  for (const std::string role : {"switch", "server"}) {
    const std::string written = to_json(full_status(role));
    EXPECT_EQ(to_json(status_from(Json::parse(written))), written);
    EXPECT_EQ(written.find(":0"), written.npos) << "a value was not filled";
    EXPECT_EQ(written.find("null"), written.npos) << "a value was not filled";
  }
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

void add_keys(const Json& part, std::set<std::string>& keys) {
  if (!part.is_structured()) return;
  for (const auto& [key, value] : part.items()) {
    if (part.is_object()) keys.insert(key);
    if (key != "drops" && key != "counters") add_keys(value, keys);
  }
}

// docs/operate/status.md promises them.
TEST(StatusJson, HasTheKeysOnItsPage) {
  std::set<std::string> keys;
  for (const char* role : {"switch", "server"}) {
    add_keys(Json::parse(to_json(full_status(role))), keys);
  }
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() /
                     "../../../docs/operate/status.md");
  std::string page(std::istreambuf_iterator<char>(file), {});
  page.erase(0, page.find("## The keys"));
  for (const std::string& key : keys) EXPECT_NE(page.find('`' + key + '`'), page.npos) << key;
  static const std::regex kFirstColumn("\n\\| (`[^|]*) \\|"), kWord("[a-z_]+");
  std::size_t promised = 0;
  for (std::sregex_iterator row(page.begin(), page.end(), kFirstColumn), end; row != end; ++row) {
    const std::string words = (*row)[1];
    for (std::sregex_iterator word(words.begin(), words.end(), kWord); word != end; ++word) {
      EXPECT_TRUE(keys.contains(word->str())) << word->str();
      ++promised;
    }
  }
  EXPECT_GT(promised, 40u);
}

TEST(StatusJson, HasNullForWhatIsUnknownAndNoTenantWithoutKeys) {
  NodeStatus status{.role = "server", .listen = "a", .version = "1"};
  status.jobs.push_back({.stuck = StuckJob{.ranks = {{2, ""}}}, .hosts = {"10.0.1.1", ""}});
  status.jobs.emplace_back();
  const Json jobs = Json::parse(to_json(status))["jobs"];
  EXPECT_EQ(jobs[0]["hosts"], Json({"10.0.1.1", nullptr}));
  EXPECT_EQ(jobs[0]["stuck"]["ranks"], Json::array({{{"rank", 2}, {"host", nullptr}}}));
  EXPECT_EQ(jobs[0]["stuck"]["operation"], nullptr);
  EXPECT_EQ(jobs[1]["stuck"], nullptr);
  EXPECT_FALSE(jobs[0].contains("tenant"));
  EXPECT_EQ(to_json(status_from(Json::parse(to_json(status)))), to_json(status));
}

// Each key of the document, and of the first object below it, is left out once: an earlier version
// has not had it.
void read_without_each_key(const Json& whole, Json& part) {
  for (const std::string& key : keys_of(part)) {
    const Json value = part[key];
    part.erase(key);
    const bool is_needed =
        &part == &whole && (key == "role" || key == "listen" || key == "version");
    if (is_needed) {
      EXPECT_THROW(status_from(whole), Json::exception) << key;
    } else {
      EXPECT_NO_THROW(status_table(status_from(whole))) << key;
    }
    part[key] = value;
    Json& inner = value.is_array() && !value.empty() ? part[key][0] : part[key];
    if (inner.is_object()) read_without_each_key(whole, inner);
  }
}

TEST(StatusJson, MayLackAnyKeyButThoseThatMakeItAStatus) {
  for (const char* role : {"switch", "server"}) {
    Json document = Json::parse(to_json(full_status(role)));
    read_without_each_key(document, document);
    document["jobs"][0]["later"] = document["later"] = {{"a", 1}};
    EXPECT_EQ(to_json(status_from(document)), to_json(full_status(role)))
        << "later versions add keys";
  }
}

TEST(CounterLine, IsOneJsonObject) {
  EXPECT_EQ(to_json_line(1.5, "switch", {{"b", 2}, {"a", 18446744073709551615u}}),
            "{\"time_s\":1.5,\"role\":\"switch\",\"counters\":{\"b\":2,\"a\":18446744073709551615}}"
            "\n");
}

Result<NodeStatus> read(const std::string& jobs, const std::string& role = "server",
                        const std::string& more = "") {
  return read_node_status(
      "a", std::string(kStatusLine) + R"({"role": ")" + role +
               R"(", "listen": "10.0.0.9:5500", "version": "0.1.0", "jobs": [)" + jobs + "]" +
               more + "}");
}

std::string job(const std::string& more = "") {
  return R"({"job": 7, "incarnation": 3, "world_size": 4, "joined": [3, 0, 1])" + more + "}";
}

TEST(NodeStatus, RefusesWhatIsNotAStatus) {
  struct Case {
    const char* name;
    std::string reply;
  };
  const Case replies[] = {
      {"another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"},
      {"another version", "atp-status 7\n{}"},
      {"half of a document", std::string(kStatusLine) + "{"},
      {"no object", std::string(kStatusLine) + "[1]"},
      {"an empty object", std::string(kStatusLine) + "{}"},
      {"a role that is a number", std::string(kStatusLine) + R"({"role": 7})"},
      {"no address", std::string(kStatusLine) + R"({"role": "server"})"},
  };
  for (const Case& c : replies) EXPECT_FALSE(read_node_status("a", c.reply)) << c.name;
  const Case jobs[] = {
      {"jobs that are not objects", "7"},
      {"a negative job", R"({"job": -7, "incarnation": 3, "world_size": 4})"},
      {"a job that is a word", R"({"job": "x", "incarnation": 3, "world_size": 4})"},
      {"ranks that are words", job(R"(, "left": ["x"])")},
      {"ranks that are not a list", job(R"(, "left": 3)")},
      {"a host that is a number", job(R"(, "stuck": {"ranks": [{"rank": 2, "host": 3}]})")},
      {"hosts that are an address", job(R"(, "hosts": "10.0.1.1")")},
      {"a rank's host that is a number", job(R"(, "hosts": [3])")},
      {"a tenant that is a number", job(R"(, "tenant": 3)")},
  };
  for (const Case& c : jobs) EXPECT_FALSE(read(c.reply)) << c.name;
  EXPECT_FALSE(read(job(R"(, "parent": [])"), "switch")) << "a parent that is a list";
  EXPECT_TRUE(read(job())) << "none of these";
}

TEST(NodeStatus, LeavesOutRanksThatAreTooHigh) {
  const std::string delays = R"("lateness": [{"rank": 1024}, {"rank": 4294967297}, {"rank": 1}])";
  const std::string stuck = R"("stuck": {"ranks": [{"rank": 9223372036854775807}, {"rank": 3}]})";
  const JobStatus read_job = read(job(", " + delays + ", " + stuck)).value().jobs[0];
  ASSERT_EQ(read_job.lateness.size(), 1u);
  EXPECT_EQ(read_job.lateness[0].rank, 1u);
  ASSERT_EQ(read_job.stuck->ranks.size(), 1u);
  EXPECT_EQ(read_job.stuck->ranks[0].rank, 3u);
}

TEST(NodeStatus, KeepsAsManyFailuresAsANodeTells) {
  std::string failures = R"(, "failures": [{"job": 0})";
  for (int i = 1; i < 100; ++i) failures += R"(, {"job": )" + std::to_string(i) + "}";
  EXPECT_EQ(read("", "server", failures + "]").value().failures.size(), 16u);
}

TEST(NodeStatus, HasTheKeysOfEitherNodeIfItsRoleIsNew) {
  const std::string of_switch = R"(, "parent": "10.0.0.9:5500", "aggregators": {"held": 12})";
  const NodeStatus status =
      read(job(R"(, "fragments": 9)" + of_switch), "lane", R"(, "aggregators": {"total": 1024})")
          .value();
  EXPECT_FALSE(status.is_switch());
  EXPECT_EQ(status.aggregators.total, 1024u);
  EXPECT_EQ(status.jobs[0].aggregators.held, 12u);
  EXPECT_EQ(status.jobs[0].fragments, 9u);
  EXPECT_NE(status_table(status).find("of 1,024 aggregators held"), std::string::npos)
      << "shown as a switch";
}

TEST(NodeStatus, MakesTheTextsOfAStrangerShortAndPlain) {
  const std::string evil = R"("\u001b[31m\n<script>)" + std::string(500, 'x') + "\"";
  const NodeStatus named = read(job(R"(, "tenant": )" + evil + R"(, "parent": )" + evil), "switch",
                                R"(, "drops": {)" + evil + ": 1}, \"version\": " + evil)
                               .value();
  EXPECT_EQ(named.jobs[0].parent.size(), 300u);
  EXPECT_EQ(named.jobs[0].parent[0], ' ') << "no escape sequence";
  const std::string table = status_table(named);
  EXPECT_EQ(table.find('\x1b'), std::string::npos) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5) << table;
  std::string many = job();
  for (int i = 0; i < 2000; ++i) many += "," + job();
  EXPECT_EQ(read(many).value().jobs.size(), 1024u);
  EXPECT_EQ(read(job(R"(, "left": [1023, 1024, 4000000000])")).value().jobs[0].left,
            RankSet::of(1023))
      << "no rank has a higher number";
}

}  // namespace
}  // namespace atp
