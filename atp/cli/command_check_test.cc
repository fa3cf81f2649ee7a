#include "atp/cli/command_check.h"

#include <gtest/gtest.h>

#include <vector>

#include "atp/cli/command.h"

namespace atp {
namespace {

// "" when nothing is wrong.
std::string complaint_about(const std::vector<std::string>& arguments) {
  CLI::App app("", "atp");
  app.add_subcommand("switch")->add_option("--listen");
  app.add_subcommand("server");
  app.add_subcommand("bench")->add_subcommand("allreduce");
  try {
    check_commands(app, arguments);
  } catch (const CommandError& error) {
    EXPECT_EQ(error.exit_code(), kWrongUsage);
    return error.what();
  }
  return "";
}

TEST(CommandCheck, SaysWhatIsNoCommandAndWhatThereIs) {
  struct Case {
    std::vector<std::string> arguments;
    const char* complaint;
  };
  const Case cases[] = {
      {{"frob"}, "'frob' is no command of 'atp': write switch, server or bench (see 'atp --help')"},
      {{"swich"}, "'swich' is no command of 'atp': did you mean switch? (see 'atp --help')"},
      {{"bench", "frob"},
       "'frob' is no command of 'atp bench': write allreduce (see 'atp bench --help')"},
      {{"--frob", "switch"},
       "'--frob' is no option of 'atp', and a command comes first: write switch, server or bench "
       "(see 'atp --help')"},
  };
  for (const Case& c : cases) EXPECT_EQ(complaint_about(c.arguments), c.complaint);
}

TEST(CommandCheck, LeavesTheRestToTheParser) {
  const std::vector<std::vector<std::string>> cases = {
      {}, {"bench"}, {"--help"}, {"bench", "--help"}, {"switch", "--frob"}, {"bench", "allreduce"}};
  for (const auto& arguments : cases) EXPECT_EQ(complaint_about(arguments), "");
}

}  // namespace
}  // namespace atp
