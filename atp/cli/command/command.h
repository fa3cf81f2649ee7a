#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/result.h"

// What all commands of `atp` share: how they declare options, and how they end. CLI11 does the
// work; only command.cc includes it, because that costs six seconds of compile time.
//
// A command's callback returns on success (exit code 0) and throws otherwise: CommandError with a
// message and a code, or anything else derived from std::exception, which means code 1. Wrong usage
// is code 2, whether the parser or the command detects it.

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
class Option;
}  // namespace CLI

namespace atp {

inline constexpr int kOperationFailed = 1;
inline constexpr int kWrongUsage = 2;

// Defined by CMakeLists.txt.
extern const char* const kProgramVersion;

class CommandError : public std::runtime_error {
 public:
  explicit CommandError(const std::string& message, int exit_code = kOperationFailed)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

// An error in the arguments themselves: the message refers the user to --help.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Ends the command with a code, after it has printed everything itself.
class CommandEnd : public std::exception {
 public:
  explicit CommandEnd(int exit_code) : exit_code_(exit_code) {}
  const char* what() const noexcept override { return "the command has ended"; }
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

// Returns the value, or ends the command with the error.
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw CommandError(result.error().message, kWrongUsage);
  return std::move(result).value();
}

// One option of a command. Calls can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // Of the value, in the help. A FILE or DIR must not be empty.
  Option type_name(const std::string& name);
  Option show_default();
  Option required();
  Option split_at(char delimiter);  // one argument is a list of values

  // Restrict the value. Ranges include both ends.
  Option not_empty();
  Option in_range(int least, int most);
  Option in_range(unsigned least, unsigned most);
  Option in_range(std::size_t least, std::size_t most);
  Option number_between(double least, double most);
  Option positive_number();
  Option one_of(const std::vector<std::string>& values);
  Option one_of(std::initializer_list<unsigned> values);
  Option byte_size();  // 512, 4K, 1M

  Option excludes(Option other);
  Option excludes(const std::string& name);
  Option needs(Option other);

 private:
  CLI::Option* option_;
};

// One command, or a group of them.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command add_command(const std::string& name, const std::string& description) const;
  void require_command() const;  // a group without a command is wrong usage
  void footer(const std::string& text) const;

  // Value is one of the types that command.cc instantiates.
  template <class Value>
  Option add_option(const std::string& names, Value& value, const std::string& help) const;
  Option add_flag(const std::string& names, bool& value, const std::string& help) const;
  // Options of another program, which no help shows: using one is an error that says what to do.
  void refuse(const std::string& names, const std::string& instead) const;

  // The callback runs when all arguments have been read; before_callback()'s runs just before it.
  void callback(std::function<void()> run) const;
  void before_callback(std::function<void()> run) const;
  // Passes all arguments on unread, --help among them, to a program that interprets them.
  void callback_with_all_arguments(std::function<void(const std::vector<std::string>&)> run) const;

  std::string name() const;
  std::vector<Command> commands() const;  // a group's
  bool has_option(const std::string& name) const;
  bool takes_value(const std::string& name) const;  // the option exists and is not a flag

 protected:
  CLI::App* app_;
};

// The program with all its commands.
class CommandLine : public Command {
 public:
  CommandLine(const std::string& name, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void version_flag(const std::string& text, const std::string& help);

  // Runs the command that the arguments name, or prints the help or the version. Throws UsageError
  // and whatever the command throws.
  void parse(std::vector<std::string> arguments);
  // The command that the user named, as far as it was recognized: "atp bench allreduce".
  std::string named_command() const;

 private:
  std::string about_unknown_arguments() const;

  std::unique_ptr<CLI::App> owned_;
};

// The commands, one per file.
void add_run_command(const Command& program);
void add_cluster_command(const Command& program);
void add_switch_command(const Command& program);
void add_server_command(const Command& program);
void add_status_command(const Command& program);
void add_drain_command(const Command& program);
void add_key_command(const Command& program);
void add_bench_command(const Command& program);
void add_plan_command(const Command& program);
void add_sim_command(const Command& program);

}  // namespace atp
