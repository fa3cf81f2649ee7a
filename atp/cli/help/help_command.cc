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

// What belongs to no single command. `atp help COMMAND` is `atp COMMAND --help` (arguments.cc).
constexpr std::array<Topic, 3> kTopics = {{
    {"routes", R"(A route is the path from a rank up to a server: switches first, the server last.

  ATP_ROUTE=10.0.0.9:5500                  straight to the server, without in-network sums
  ATP_ROUTE=10.0.0.1:5501,10.0.0.9:5500    through one switch
  ATP_ROUTE=10.0.0.1:5501,10.0.0.8:5500;10.0.0.1:5501,10.0.0.9:5500
                                           two servers, over which tensors are spread
  ATP_ROUTE=10.0.0.1:5700-5703,10.0.0.9:5600-5603
                                           four lanes: a route per port

All ranks name the same servers in the same order. `atp run` sets ATP_ROUTE for the ranks that it
starts; with --cluster it takes the routes from the cluster file (docs/cluster.md).
)"},
    {"environment", R"(Environment variables that ranks read. `atp run` sets those that it must.
docs/variables.md has all of them, with their values and defaults.

  ATP_ROUTE                  the path to the server (atp help routes)
  ATP_JOB, ATP_INCARNATION   which job, and which start of it
  ATP_HOST_MEMORY            0: ranks of one host do not sum in shared memory
  ATP_HIERARCHY              1: sum per host first, then between hosts
  ATP_ALGORITHM              innetwork, ring or auto (torch)
  ATP_WAY_FIGURES            expected times of both, which auto compares (torch)
  ATP_SCALE                  blocks, or fixed: the paper's scale
  ATP_WIRE                   int32 or int16 per value on the wire
  ATP_EXACT                  1: exact sums of floats, added up by the server
  ATP_DIGEST                 1: keep a digest of all results
  ATP_DIGEST_EVERY           compare the digests of all ranks after so many operations
  ATP_VALUES_PER_FRAGMENT    maximum values per fragment
  ATP_OVERFLOW               reactive or proactive
  ATP_CONGESTION             aimd, or none: a fixed window
  ATP_SOCKET_IFNAME          the interface that other ranks connect to (torch)
  ATP_PORT_RANGE             FIRST-LAST: the ports that a rank receives at
  ATP_TIMEOUT                seconds that an all-reduce may make no progress
  ATP_JOIN_TIMEOUT           seconds to wait until all ranks have joined
  ATP_METRICS                ADDR:PORT at which ranks serve metrics (torch)
)"},
    {"exit-codes", R"(Exit codes of every command:

  0    success
  1    the operation failed; the message on standard error says why
  2    wrong usage: an unknown option, a bad value, a bad file

`atp run` exits with the code of the first rank that failed: 128 + N if signal N killed it, 127 if
its program was not found. `atp sim` has codes of its own (atp help sim).
)"},
}};

std::vector<std::string_view> topics_and(const CommandText& program,
                                         std::vector<std::string>& names) {
  for (const Topic& topic : kTopics) names.emplace_back(topic.name);
  for (const CommandText& one : program.commands) names.push_back(one.path.substr(4));
  return {names.begin(), names.end()};
}

void print_topic(const CommandText& program, const std::vector<std::string>& words) {
  const auto* const topic = std::find_if(kTopics.begin(), kTopics.end(), [&](const Topic& one) {
    return words.size() == 1 && one.name == words[0];
  });
  if (topic == kTopics.end()) {
    std::vector<std::string> names;
    throw UsageError(fmt::format("'{}' is no command or topic: {}", words[0],
                                 hint(words[0], topics_and(program, names))));
  }
  fmt::print("{}", topic->text);
}

const CommandText& command_at(const CommandText& program, const std::vector<std::string>& words) {
  const CommandText* at = &program;
  for (const std::string& word : words) {
    const std::string path = at->path + " " + word;
    const auto found = std::find_if(at->commands.begin(), at->commands.end(),
                                    [&](const CommandText& one) { return one.path == path; });
    if (found == at->commands.end()) throw UsageError(fmt::format("'{}' is no command", path));
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
      throw CommandError(fmt::format("cannot make {}: {}", folder.string(), error.message()));
    }
  }
  write_pages(program, pages);
  write_file(completions / "atp", bash_completion(program));
  fmt::print("manual pages in {}, completion in {}\n", pages.string(), completions.string());
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
  if (options.words.empty()) throw UsageError("expected a command or a topic, found none");
  print_topic(program, options.words);
}

}  // namespace

void add_help_command(const Command& program) {
  const Command command =
      program.add_command("help", "Explain a command or a topic: routes, environment, exit-codes");
  const auto options = std::make_shared<HelpOptions>();
  command.add_option("topic", options->words, "A command, or a topic").type_name("TOPIC");
  const Option man = command.add_flag("--man", options->man, "Print the command's manual page");
  command
      .add_option("--install", options->prefix,
                  "Write all manual pages and the completion for bash under this prefix")
      .type_name("DIR")
      .excludes(man)
      .excludes("topic");
  command.footer(R"(Examples:
  atp help plan best
      the same as `atp plan best --help`
  atp help routes
      how a rank finds its switches and its server
  atp help --man switch | man -l -
      the manual page of one command
  atp help --install ~/.local
      then `man atp-switch` works, and the Tab key in a new bash (with the package bash-completion))");
  command.callback([program, options] { help(DescribedCommand(program).text(), *options); });
}

void add_completion_command(const Command& program) {
  const Command command =
      program.add_command("completion", "Print a script that completes commands and options");
  const auto shell = std::make_shared<std::string>();
  command.add_option("shell", *shell, "Which shell")
      .type_name("SHELL")
      .one_of(std::vector<std::string>{"bash"})
      .required();
  command.footer(R"(Examples:
  source <(atp completion bash)
      in this shell; in ~/.bashrc for every new one)");
  command.callback(
      [program, shell] { fmt::print("{}", bash_completion(DescribedCommand(program).text())); });
}

}  // namespace atp
