#include "atp/cli/command/command.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atp {
namespace {

// Empty if nothing is wrong.
std::string complaint_about(const std::vector<std::string>& arguments) {
  CommandLine program("atp", "");
  const Command command = program.add_command("sum", "");
  std::string file, keys, type = "int32";
  std::uint32_t lanes = 1;
  std::uint64_t seed = 0, size = 0;
  bool json = false, csv = false;
  command.add_option("file", file, "").required();
  command.add_option("--type", type, "").one_of({"int32", "int16"});
  command.add_option("--lanes", lanes, "").in_range(1U, 64U);
  command.add_option("--seed", seed, "");
  command.add_option("--keys", keys, "").type_name("FILE");
  command.add_option("--size", size, "").byte_size();
  const Option of_json = command.add_flag("--json", json, "");
  command.add_flag("--csv", csv, "").excludes(of_json);
  std::vector<std::string> all = {"sum"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  try {
    program.parse(all);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(WrongUsage, IsExplainedByWhatWasFoundAndWhatWasExpected) {
  struct Case {
    std::vector<std::string> arguments;
    const char* complaint;
  };
  const Case cases[] = {
      {{"a", "--lanes", "64", "--size", "64K", "--type", "int16"}, ""},
      {{}, "the argument 'file' is missing"},
      {{"--flie"}, "unknown argument: --flie"},
      {{"a", "--frob", "8"}, "unknown argument: --frob 8"},
      {{"a", "--lnaes", "8"}, "unknown argument: --lnaes 8; did you mean --lanes?"},
      {{"a", "--lane=8"}, "unknown argument: --lane=8; did you mean --lanes?"},
      {{"--jsno"}, "unknown argument: --jsno; did you mean --json?"},
      {{"a", "--json", "b", "--seeds", "3"}, "unknown argument: b --seeds 3; did you mean --seed?"},
      {{"a", "--lanes"}, "--lanes needs a value"},
      {{"a", "--lanes", "2", "--lanes", "3"}, "--lanes may be given only once"},
      {{"a", "--lanes", "0"}, "--lanes: found 0, expected a whole number from 1 to 64"},
      {{"a", "--lanes", "x"}, "--lanes: found x, expected a whole number from 1 to 64"},
      {{"a", "--type", "int8"}, "--type: found int8, expected int32 or int16"},
      {{"a", "--seed", "x"}, "--seed: found x, expected a whole number"},
      {{"a", "--keys", ""}, "--keys: found an empty value; leave the option out for its default"},
      {{"a", "--json=maybe"}, "--json takes no value, found maybe"},
      {{"a", "--size", "5Q"}, "--size: found 5Q, expected a size such as 4096, 64K or 1M"},
      {{"a", "--size", "-5"}, "--size: found -5, expected a size such as 4096, 64K or 1M"},
      {{"a", "--json", "--csv"}, "--json cannot be combined with --csv"},
  };
  for (const Case& c : cases) EXPECT_EQ(complaint_about(c.arguments), c.complaint);
}

}  // namespace
}  // namespace atp
