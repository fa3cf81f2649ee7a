#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "atp/base/result.h"

// What all commands of `atp` share. A command's callback returns when it succeeded (exit code 0)
// and throws otherwise: CommandError with a message and a code, or anything derived from
// std::exception, which means code 1. Wrong usage is code 2, whether CLI11 or a command finds it.

namespace atp {

inline constexpr int kOperationFailed = 1;
inline constexpr int kWrongUsage = 2;

class CommandError : public std::runtime_error {
 public:
  explicit CommandError(const std::string& message, int exit_code = kOperationFailed)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

// What the user has said wrongly ends the command.
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw CommandError(result.error().message, kWrongUsage);
  return std::move(result).value();
}

void add_version_command(CLI::App& app);
void add_switch_command(CLI::App& app);
void add_server_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_cluster_command(CLI::App& app);
void add_sim_command(CLI::App& app);
void add_status_command(CLI::App& app);

}  // namespace atp
