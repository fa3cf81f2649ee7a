#include "atp/cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "atp/cli/bench_allreduce.h"
#include "atp/cli/command.h"
#include "atp/cli/command_check.h"
#include "atp/cli/command_mark.h"
#include "atp/cli/log.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  atp run -n 4 -- python train.py
      4 ranks, a switch and a server on this machine
  atp server --listen 10.0.0.9:5500
  atp switch --listen 10.0.0.1:5501 --upstream 10.0.0.0/24
      the same across machines: the server, and a switch that may send to it
  atp plan best --topology cluster.yaml --model config.json
      the device mesh for tensor parallelism on that cluster
Exit codes: 0 success, 1 the operation failed, 2 wrong usage.)";

// The command that the user named, as far as it was understood: "atp bench allreduce".
std::string named_command(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return name;
}

void print_error(const std::string& command, const std::string& message) {
  fmt::print(stderr, "{}: {}\n", command, message);
}

int report_wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
  const std::string command = named_command(app);
  print_error(command, fmt::format("{} (see '{} --help')", error.what(), command));
  return kWrongUsage;
}

std::string version_text() {
  return fmt::format("atp {} (wire version {})", ATP_VERSION, ATP_VERSION_1);
}

// Every command, also those of groups, takes --log-level.
void add_log_options(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_subcommands([](const CLI::App*) { return true; }).empty()) {
      add_log_option(*command);
    }
    add_log_options(*command);
  }
}

// CLI11 wants them last to first.
std::vector<std::string> arguments_for_parser(const CLI::App& app,
                                              std::vector<std::string> arguments) {
  check_commands(app, arguments);
  if (!arguments.empty() && arguments.front() == "run") {
    arguments = mark_command(*app.get_subcommand("run"), {arguments.begin() + 1, arguments.end()});
    arguments.insert(arguments.begin(), "run");
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

// What is still buffered would be lost in silence when the disk is full.
int after_output(const CLI::App& app, int exit_code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return exit_code;
  print_error(named_command(app),
              fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  return exit_code == 0 ? kOperationFailed : exit_code;
}

}  // namespace

void add_version_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("version", "Print the version of the program");
  command->footer("Examples:\n  atp version");
  command->callback([] { fmt::print("{}\n", version_text()); });
}

int run_program(int argc, char** argv) {
  CLI::App app("Sums the gradients of distributed training inside the network", "atp");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text(), "The same as `atp version`");
  add_run_command(app);
  add_switch_command(app);
  add_server_command(app);
  add_status_command(app);
  add_bench_command(app);
  add_plan_command(app);
  add_sim_command(app);
  add_cluster_command(app);
  add_version_command(app);
  add_log_options(app);

  try {
    app.parse(arguments_for_parser(app, {argv + 1, argv + argc}));
    return after_output(app, 0);
  } catch (const CLI::RuntimeError& error) {  // a command's own exit code; it has said why
    return after_output(app, error.get_exit_code());
  } catch (const CLI::Success& help) {
    return after_output(app, app.exit(help));
  } catch (const CLI::ParseError& error) {
    return report_wrong_usage(app, error);
  } catch (const CommandError& error) {
    print_error(named_command(app), error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    print_error(named_command(app), error.what());
    return kOperationFailed;
  }
}

}  // namespace atp
