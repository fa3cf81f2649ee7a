#include "atp/cli/command_mark.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

using Arguments = std::vector<std::string>;

TEST(CommandMark, StandsBeforeTheFirstArgumentThatIsNoOption) {
  CLI::App run;
  int ranks = 0;
  bool tag = false;
  run.add_option("-n,--ranks", ranks);
  run.add_flag("--tag-output", tag);
  const std::vector<std::pair<Arguments, Arguments>> cases = {
      {{"-n", "4", "python", "x.py", "-n", "1"}, {"-n", "4", "--", "python", "x.py", "-n", "1"}},
      {{"-n", "4", "--", "python"}, {"-n", "4", "--", "python"}},
      {{"-n4", "python"}, {"-n4", "--", "python"}},
      {{"--ranks=4", "python"}, {"--ranks=4", "--", "python"}},
      {{"--tag-output", "sh"}, {"--tag-output", "--", "sh"}},
      {{"--ranks", "2", "sh", "--", "x"}, {"--ranks", "2", "--", "sh", "--", "x"}},
      {{"--unknown", "sh"}, {"--unknown", "--", "sh"}},
      {{"--help"}, {"--help"}},
      {{"-n"}, {"-n"}},
      {{}, {}},
  };
  for (const auto& [given, wanted] : cases) EXPECT_EQ(mark_command(run, given), wanted);
}

}  // namespace
}  // namespace atp
