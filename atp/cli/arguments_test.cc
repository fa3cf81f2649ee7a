#include "atp/cli/arguments.h"

#include <gtest/gtest.h>

#include <vector>

#include "atp/cli/command/command.h"

namespace atp {
namespace {

using Arguments = std::vector<std::string>;

// Empty if nothing is wrong.
std::string complaint_about(const std::vector<std::string>& arguments) {
  const CommandLine program("atp", "");
  std::string listen;
  program.add_command("switch", "").add_option("--listen", listen, "");
  program.add_command("server", "");
  program.add_command("bench", "").add_command("allreduce", "");
  try {
    check_commands(program, arguments);
  } catch (const CommandError& error) {
    EXPECT_EQ(error.exit_code(), kWrongUsage);
    return error.what();
  }
  return "";
}

TEST(CommandCheck, NamesTheUnknownCommandAndTheKnownOnes) {
  struct Case {
    std::vector<std::string> arguments;
    const char* complaint;
  };
  const Case cases[] = {
      {{"frob"},
       "'frob' is not a command of 'atp': use switch, server or bench (see 'atp --help')"},
      {{"swich"}, "'swich' is not a command of 'atp': did you mean switch? (see 'atp --help')"},
      {{"bench", "frob"},
       "'frob' is not a command of 'atp bench': use allreduce (see 'atp bench --help')"},
      {{"--frob", "switch"},
       "'--frob' is not an option of 'atp', and a command comes first: use switch, server or bench "
       "(see 'atp --help')"},
      {{}, "'atp' needs a command: use switch, server or bench (see 'atp --help')"},
      {{"bench"}, "'atp bench' needs a command: use allreduce (see 'atp bench --help')"},
  };
  for (const Case& c : cases) EXPECT_EQ(complaint_about(c.arguments), c.complaint);
}

TEST(CommandCheck, LeavesTheRestToTheParser) {
  const std::vector<std::vector<std::string>> cases = {
      {"--help"}, {"bench", "--help"}, {"switch", "--frob"}, {"bench", "allreduce"}};
  for (const auto& arguments : cases) EXPECT_EQ(complaint_about(arguments), "");
}

TEST(HelpArguments, BecomeTheHelpOptionOfTheNamedCommand) {
  const CommandLine program("atp", "");
  program.add_command("run", "");
  program.add_command("bench", "").add_command("allreduce", "");
  program.add_command("help", "");
  const std::vector<std::pair<Arguments, Arguments>> cases = {
      {{"help"}, {"--help"}},
      {{"help", "run"}, {"run", "--help"}},
      {{"help", "bench"}, {"bench", "--help"}},
      {{"help", "bench", "allreduce"}, {"bench", "allreduce", "--help"}},
      {{"help", "routes"}, {"help", "routes"}},
      {{"help", "--help"}, {"help", "--help"}},
      {{"help", "--man", "run"}, {"help", "--man", "run"}},
      {{"help", "run", "--man"}, {"help", "run", "--man"}},
      {{"run", "help"}, {"run", "help"}},
      {{}, {}},
  };
  for (const auto& [given, wanted] : cases) EXPECT_EQ(help_arguments(program, given), wanted);
  const std::vector<std::pair<Arguments, std::string>> complaints = {
      {{"help", "bench", "frob"},
       "'frob' is not a command of 'atp bench': use allreduce (see 'atp bench --help')"},
      // Asking for help must not start the program after `run`.
      {{"help", "run", "reboot"},
       "'reboot' is not a command of 'atp run', which has no subcommands"},
  };
  for (const auto& [given, wanted] : complaints) {
    try {
      help_arguments(program, given);
      ADD_FAILURE() << wanted;
    } catch (const CommandError& error) {
      EXPECT_EQ(error.what(), wanted);
      EXPECT_EQ(error.exit_code(), kWrongUsage);
    }
  }
}

TEST(CommandMark, IsInsertedBeforeTheFirstArgumentThatIsNotAnOption) {
  const CommandLine run("run", "");
  int ranks = 0;
  bool tag = false;
  run.add_option("-n,--ranks", ranks, "");
  run.add_flag("--tag-output", tag, "");
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
