#include "atp/cli/help/help_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/variables.h"
#include "atp/cli/command/command_text.h"
#include "atp/cli/help/completion.h"
#include "atp/cli/help/man_page.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

struct Topic {
  std::string_view name;
  std::string_view text;
};

// Topics that concern several commands. `atp help COMMAND` is `atp COMMAND --help` (arguments.cc).
constexpr std::array<Topic, 3> kTopics = {{
    {"routes", R"(A route is the path from a rank up to a server: switches first, the server last.

  ATP_ROUTE=10.0.0.9:5500                  straight to the server, no in-network sums
  ATP_ROUTE=10.0.0.1:5501,10.0.0.9:5500    through one switch
  ATP_ROUTE="10.0.0.1:5501,10.0.0.8:5500;10.0.0.1:5501,10.0.0.9:5500"
                                           two servers, over which tensors are spread
  ATP_ROUTE=10.0.0.1:5700-5703,10.0.0.9:5600-5603
                                           four lanes: a route per port

All ranks must list the same servers in the same order. `atp run` sets ATP_ROUTE for the ranks that
it starts; with --cluster it derives the routes from the cluster file (docs/use/cluster.md).
)"},
    {"environment",
     R"(Environment variables that ranks read. `atp run` sets the ones that a job needs.
docs/use/variables.md lists all of them, with values and defaults.

)"},
    {"exit-codes", R"(Exit codes of every command:

  0    success
  1    the operation failed; the message on standard error says why
  2    wrong usage: an unknown option, a bad value, a bad file

`atp doctor` and `atp report` also exit with 1 if they ran but found an error or a failure.
`atp run` exits with the code of the first rank that failed: 128 + N if signal N killed it, 127 if
its program was not found. `atp sim` has its own exit codes (atp help sim).
)"},
}};

std::vector<std::string_view> topics_and(const CommandText& program,
                                         std::vector<std::string>& names) {
  for (const Topic& topic : kTopics) names.emplace_back(topic.name);
  for (const CommandText& one : program.commands) names.push_back(one.path.substr(4));
  return {names.begin(), names.end()};
}

void print_topic(const CommandText& program, const std::vector<std::string>& words) {
  const auto* const topic = std::find_if(kTopics.begin(), kTopics.end(),
                                         [&](const Topic& one) { return one.name == words[0]; });
  if (topic == kTopics.end()) {
    std::vector<std::string> names;
    throw UsageError(fmt::format("'{}' is not a command or topic: {}", words[0],
                                 hint(words[0], topics_and(program, names))));
  }
  if (words.size() > 1) {
    throw UsageError(
        fmt::format("found '{}' after the topic '{}', expected nothing", words[1], topic->name));
  }
  fmt::print("{}{}", topic->text, topic->name == "environment" ? variables_help() : "");
}

const CommandText& command_at(const CommandText& program, const std::vector<std::string>& words) {
  const CommandText* at = &program;
  for (const std::string& word : words) {
    const std::string path = at->path + " " + word;
    const auto found = std::find_if(at->commands.begin(), at->commands.end(),
                                    [&](const CommandText& one) { return one.path == path; });
    if (found == at->commands.end()) throw UsageError(fmt::format("'{}' is not a command", path));
    at = &*found;
  }
  return *at;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return;
  throw CommandError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

void write_pages(const CommandText& command, const std::filesystem::path& folder) {
  write_file(folder / (man_page_name(command) + ".1"), man_page(command, kProgramVersion));
  for (const CommandText& one : command.commands) write_pages(one, folder);
}

void install(const CommandText& program, const std::filesystem::path& prefix) {
  const std::filesystem::path pages = prefix / "share/man/man1";
  const std::filesystem::path completions = prefix / "share/bash-completion/completions";
  for (const std::filesystem::path& folder : {pages, completions}) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      throw CommandError(fmt::format("cannot create {}: {}", folder.string(), error.message()));
    }
  }
  write_pages(program, pages);
  write_file(completions / "atp", bash_completion(program));
  fmt::print("wrote manual pages to {} and completion to {}\n", pages.string(),
             completions.string());
}

struct HelpOptions {
  std::vector<std::string> words;
  bool man = false;
  std::string prefix;
};

void help(const CommandText& program, const HelpOptions& options) {
  if (!options.prefix.empty()) return install(program, options.prefix);
  if (options.man) {
    fmt::print("{}", man_page(command_at(program, options.words), kProgramVersion));
    return;
  }
  if (options.words.empty()) throw UsageError("expected a command or a topic");
  print_topic(program, options.words);
}

}  // namespace

void add_help_command(const Command& program) {
  const Command command =
      program.add_command("help", "Explain a command or a topic: routes, environment, exit-codes");
  const auto options = std::make_shared<HelpOptions>();
  command.add_option("topic", options->words, "Command or topic").type_name("TOPIC");
  const Option man = command.add_flag("--man", options->man, "Print the command's manual page");
  command
      .add_option("--install", options->prefix,
                  "Install all manual pages and the bash completion under this prefix")
      .type_name("DIR")
      .excludes(man)
      .excludes("topic");
  command.footer(R"(Examples:
  atp help plan best
      the same as `atp plan best --help`
  atp help routes
      how ranks find their switches and servers
  atp help --man switch | man -l -
      show the manual page of one command
  atp help --install ~/.local
      make `man atp-switch` work, and Tab in new shells (needs the package bash-completion))");
  command.callback([program, options] { help(DescribedCommand(program).text(), *options); });
}

void add_completion_command(const Command& program) {
  const Command command =
      program.add_command("completion", "Print a script that completes commands and options");
  const auto shell = std::make_shared<std::string>();
  command.add_option("shell", *shell, "Shell")
      .type_name("SHELL")
      .one_of(std::vector<std::string>{"bash"})
      .required();
  command.footer(R"(Examples:
  source <(atp completion bash)
      enable completion in this shell; put the line into ~/.bashrc for every new one)");
  command.callback(
      [program, shell] { fmt::print("{}", bash_completion(DescribedCommand(program).text())); });
}

}  // namespace atp
