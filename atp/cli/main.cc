#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "atp/cli/arguments.h"
#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/doctor/doctor_command.h"
#include "atp/cli/help/help_command.h"
#include "atp/cli/report/report_command.h"
#include "atp/cli/view/view_command.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  atp run -n 4 -- python train.py
      run 4 ranks on this machine
  atp server --listen 10.0.0.9:5500
  atp switch --listen 10.0.0.1:5501 --upstream 10.0.0.0/24
      on two other machines: a server, and a switch that may send to it
  atp plan best --cluster cluster.yaml --model config.json
      find the device mesh for tensor parallelism on that cluster
`atp help COMMAND` explains a command; `atp help` also covers routes, environment and exit-codes.
Exit codes: 0 success, 1 the operation failed, 2 wrong usage.)";

void print_error(const CommandLine& program, const std::string& message) {
  fmt::print(stderr, "{}: {}\n", program.named_command(), message);
}

std::string version_text() {
  return fmt::format("atp {} (wire version {})", kProgramVersion, ATP_VERSION);
}

void add_version_command(const Command& program) {
  const Command command = program.add_command("version", "Print the version of the program");
  command.footer("Examples:\n  atp version");
  command.callback([] { fmt::print("{}\n", version_text()); });
}

// Every command can log, including those in groups.
void add_log_options_to_all(const Command& group) {
  for (const Command& command : group.commands()) {
    if (command.commands().empty()) add_log_options(command);
    add_log_options_to_all(command);
  }
}

void add_commands(CommandLine& program) {
  program.footer(kExamples);
  program.require_command();
  program.version_flag(version_text(), "Print the version and exit");
  add_run_command(program);
  add_switch_command(program);
  add_server_command(program);
  add_status_command(program);
  add_drain_command(program);
  add_key_command(program);
  add_view_command(program);
  add_doctor_command(program);
  add_report_command(program);
  add_bench_command(program);
  add_plan_command(program);
  add_sim_command(program);
  add_cluster_command(program);
  add_version_command(program);
  add_log_options_to_all(program);
  add_help_command(program);  // this and the next log nothing
  add_completion_command(program);
}

std::vector<std::string> checked(const CommandLine& program, std::vector<std::string> arguments) {
  arguments = help_arguments(program, std::move(arguments));
  check_commands(program, arguments);
  if (arguments.empty() || arguments.front() != "run") return arguments;
  const auto commands = program.commands();
  const auto run = std::find_if(commands.begin(), commands.end(),
                                [](const Command& command) { return command.name() == "run"; });
  arguments = mark_command(*run, {arguments.begin() + 1, arguments.end()});
  arguments.insert(arguments.begin(), "run");
  return arguments;
}

bool has_no_reader(int fd) {
  pollfd output{fd, 0, 0};
  return poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

// Without this, buffered output would be lost silently when the disk is full.
int after_output(const CommandLine& program, int exit_code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return exit_code;
  if (outlives_readers() && has_no_reader(STDOUT_FILENO)) return exit_code;
  print_error(program, fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  return exit_code == 0 ? kOperationFailed : exit_code;
}

int run_program(CommandLine& program, const std::vector<std::string>& arguments) {
  try {
    program.parse(checked(program, arguments));
    return after_output(program, 0);
  } catch (const CommandEnd& end) {
    return after_output(program, end.exit_code());
  } catch (const UsageError& error) {
    print_error(program,
                fmt::format("{} (see '{} --help')", error.what(), program.named_command()));
    return kWrongUsage;
  } catch (const CommandError& error) {
    print_error(program, error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    print_error(program, "no memory left: raise its limit (ulimit -v, or that of the container)");
    return kOperationFailed;
  } catch (const std::exception& error) {
    print_error(program, error.what());
    return kOperationFailed;
  }
}

}  // namespace
}  // namespace atp

int main(int argc, char** argv) {
  atp::CommandLine program("atp", "Sums the gradients of distributed training inside the network");
  atp::add_commands(program);
  return atp::run_program(program, {argv + 1, argv + argc});
}
