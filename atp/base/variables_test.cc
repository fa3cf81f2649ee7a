#include "atp/base/variables.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace atp {
namespace {

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Variables, EachHaveARowWithAllItNeeds) {
  std::set<std::string_view> names;
  std::set<std::string_view> options;
  for (const Variable& each : variables()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name << " twice";
    EXPECT_TRUE(each.option.empty() || options.insert(each.option).second) << each.name;
    EXPECT_TRUE(each.option.empty() || (each.readers & kTorch) != 0) << each.name;
    EXPECT_NE(each.readers, 0U) << each.name;
    EXPECT_FALSE(each.meaning.empty() || each.otherwise.empty()) << each.name;
    EXPECT_EQ(each.kind == VariableKind::kText, !each.form.empty()) << each.name;
    EXPECT_EQ(each.kind == VariableKind::kChoice, !each.choices[0].empty()) << each.name;
    const bool is_number = each.kind == VariableKind::kWhole || each.kind == VariableKind::kSeconds;
    EXPECT_EQ(is_number, each.most > each.least) << each.name;
    EXPECT_EQ(&variable(each.name), &each);
  }
}

// ATP_WRITE_DOCS=1 rewrites the page.
TEST(VariablesPage, MatchesTheTable) {
  const std::string path =
      (std::filesystem::path(__FILE__).parent_path() / "../../docs/use/variables.md").string();
  const std::string begin = "<!-- written by atp_base_test -->\n";
  const std::string page = read(path);
  const std::size_t from = page.find(begin);
  ASSERT_NE(from, std::string::npos) << path;
  const std::size_t to = page.find("<!-- end -->", from);
  ASSERT_NE(to, std::string::npos) << path;
  const std::string wanted =
      page.substr(0, from) + begin + "\n" + variables_table() + "\n" + page.substr(to);
  if (std::getenv("ATP_WRITE_DOCS") != nullptr) std::ofstream(path) << wanted;
  EXPECT_EQ(read(path), wanted) << "run the test with ATP_WRITE_DOCS=1 to rewrite the page";
}

}  // namespace
}  // namespace atp
