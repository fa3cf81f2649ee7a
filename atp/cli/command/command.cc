#include "atp/cli/command/command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <optional>

#include "atp/base/nearest_name.h"
#include "atp/cli/command/command_text.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

std::vector<CLI::App*> subcommands(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// CLI11 keeps one text, "N:UINT in [1 - 64]" or "TYPE:{int32,int16}": a name, then the checks.
void read_type(const std::string& type, OptionText& option) {
  const std::size_t choices = type.find('{');
  const std::size_t range = type.find(" in [");
  if (choices != std::string::npos) {
    option.choices = CLI::detail::split(type.substr(choices + 1, type.size() - choices - 2), ',');
  } else if (range != std::string::npos) {
    const std::string ends = type.substr(range + 5, type.size() - range - 6);
    const std::size_t between = ends.find(" - ");
    option.range = ends.substr(0, between) + " to " + ends.substr(between + 3);
  }
  const std::size_t checks = std::min(choices, range);
  const std::size_t colon = checks == std::string::npos ? checks : type.rfind(':', checks);
  option.value = type.substr(0, colon);
  if (colon == std::string::npos && checks != std::string::npos) option.value = "VALUE";
}

OptionText option_text(const CLI::Option& option) {
  OptionText text;
  text.positional = option.get_positional();
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (text.positional) text.names = {option.get_name(true)};
  text.required = option.get_required();
  if (option.get_items_expected_max() > 0) read_type(option.get_type_name(), text);
  text.default_value = option.get_default_str();
  text.help = option.get_description();
  return text;
}

// CLI11's check, in our words: what was found, and what was expected.
CLI::Validator in_our_words(const CLI::Validator& check, const std::string& expected) {
  const auto problem = [check, expected](const std::string& text) -> std::string {
    return check(text).empty() ? "" : fmt::format("found {}, expected {}", text, expected);
  };
  return {problem, check.get_description()};
}

template <class Number>
CLI::Validator whole_number_between(Number least, Number most) {
  return in_our_words(CLI::Range(least, most),
                      count_text(static_cast<long long>(least), static_cast<long long>(most)));
}

// Whether the text is a size; if so, replaces it by the number of bytes.
bool is_size(std::string& text) {
  try {
    return CLI::AsSizeValue(false)(text).empty();
  } catch (const CLI::ValidationError&) {
    return false;
  }
}

// The parts of a message of CLI11 before and after `mark`, in most messages two options' names.
std::pair<std::string, std::string> parted(const std::string& message, std::string_view mark) {
  const std::size_t at = std::min(message.find(mark), message.size());
  return {message.substr(0, at), message.substr(std::min(at + mark.size(), message.size()))};
}

std::string usage_text(const CLI::RequiredError& error) {
  const std::string name = parted(error.what(), " is required").first;
  return name.starts_with('-') ? error.what() : fmt::format("the argument '{}' is missing", name);
}

std::string usage_text(const CLI::ArgumentMismatch& error) {
  const auto [name, problem] = parted(error.what(), ": ");
  return name + (problem.starts_with("At Most") ? " may be given only once" : " needs a value");
}

std::string usage_text(const CLI::ExcludesError& error) {
  const auto [one, other] = parted(error.what(), " excludes ");
  return fmt::format("{} cannot be combined with {}", one, other);
}

// "Could not convert: --seed = x". Besides flags, only options with whole numbers get here: those
// with other values have checks of their own.
std::string usage_text(const CLI::ConversionError& error, const Command& command) {
  const auto [name, found] = parted(parted(error.what(), ": ").second, " = ");
  if (!command.takes_value(name)) return fmt::format("{} takes no value, found {}", name, found);
  return fmt::format("{}: found {}, expected a whole number", name, found);
}

// The innermost command that was recognized.
CLI::App* named_in(CLI::App* command) {
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return command;
}

// Empty if the argument is like none of the command's options.
std::string nearest_option(const CLI::App& command, const std::string& argument) {
  if (!argument.starts_with("--")) return {};
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  const std::string found = argument.substr(2, argument.find('=') - 2);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string_view near = nearest_name(found, known);
  return near.empty() ? "" : "--" + std::string(near);
}

}  // namespace

const char* const kProgramVersion = ATP_VERSION;

Option Option::type_name(const std::string& name) {
  option_->type_name(name);
  return name == "FILE" || name == "DIR" ? not_empty() : *this;
}

Option Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::split_at(char delimiter) {
  option_->delimiter(delimiter);
  return *this;
}

// Otherwise an unset variable in a script would stand for the default.
Option Option::not_empty() {
  option_->check([](const std::string& text) -> std::string {
    return text.empty() ? "found an empty value; leave the option out for its default" : "";
  });
  return *this;
}

Option Option::in_range(int least, int most) {
  option_->check(whole_number_between(least, most));
  return *this;
}

Option Option::in_range(unsigned least, unsigned most) {
  option_->check(whole_number_between(least, most));
  return *this;
}

Option Option::in_range(std::size_t least, std::size_t most) {
  option_->check(whole_number_between(least, most));
  return *this;
}

// CLI11's own range checks accept NaN, which no later comparison rejects.
Option Option::number_between(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    const std::optional<double> value = parse_number(text);
    if (value && *value >= least && *value <= most) return {};
    return fmt::format("found {}, expected a number from {} to {}", text, least, most);
  };
  option_->check(CLI::Validator(check, fmt::format("FLOAT in [{} - {}]", least, most)));
  return *this;
}

// A number of 309 digits reads as infinity.
Option Option::positive_number() {
  const auto check = [](const std::string& text) -> std::string {
    const std::optional<double> value = parse_number(text);
    if (value && *value > 0) return {};
    return fmt::format("found {}, expected a finite number above 0", text);
  };
  option_->check(CLI::Validator(check, ""));
  return *this;
}

Option Option::one_of(const std::vector<std::string>& values) {
  const std::vector<std::string_view> names(values.begin(), values.end());
  option_->check(in_our_words(CLI::IsMember(values), listed(names)));
  return *this;
}

Option Option::one_of(std::initializer_list<unsigned> values) {
  std::vector<std::string> texts;
  for (const unsigned value : values) texts.push_back(std::to_string(value));
  const std::vector<std::string_view> names(texts.begin(), texts.end());
  option_->check(in_our_words(CLI::IsMember(values), listed(names)));
  return *this;
}

Option Option::byte_size() {
  const auto read = [](std::string& text) -> std::string {
    const std::string found = text;
    if (!found.starts_with('-') && is_size(text)) return {};
    return fmt::format("found {}, expected a size such as 4096, 64K or 1M", found);
  };
  option_->transform(CLI::Validator(read, ""));
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Option Option::excludes(const std::string& name) {
  option_->excludes(name);
  return *this;
}

Option Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

Command Command::add_command(const std::string& name, const std::string& description) const {
  return Command(app_->add_subcommand(name, description));
}

void Command::require_command() const { app_->require_subcommand(1); }

void Command::footer(const std::string& text) const { app_->footer(text); }

template <class Value>
Option Command::add_option(const std::string& names, Value& value, const std::string& help) const {
  return Option(app_->add_option(names, value, help));
}
template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, int&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint16_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint32_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<std::uint32_t>&,
                                    const std::string&) const;

Option Command::add_flag(const std::string& names, bool& value, const std::string& help) const {
  return Option(app_->add_flag(names, value, help));
}

void Command::refuse(const std::string& names, const std::string& instead) const {
  const auto say = [names, instead](const std::vector<std::string>& /*values*/) {
    throw UsageError(fmt::format("there is no {}: {}", names.substr(0, names.find(',')), instead));
  };
  app_->add_option_function<std::vector<std::string>>(names, say)->expected(0, 1)->group("");
}

void Command::callback(std::function<void()> run) const { app_->callback(std::move(run)); }

void Command::before_callback(std::function<void()> run) const {
  app_->parse_complete_callback(std::move(run));
}

void Command::callback_with_all_arguments(
    std::function<void(const std::vector<std::string>&)> run) const {
  app_->set_help_flag();
  app_->prefix_command();
  app_->callback([app = app_, run = std::move(run)] { run(app->remaining()); });
}

std::string Command::name() const { return app_->get_name(); }

std::vector<Command> Command::commands() const {
  std::vector<Command> commands;
  for (CLI::App* command : subcommands(*app_)) commands.emplace_back(command);
  return commands;
}

CommandText DescribedCommand::text(const std::string& path) const {
  CommandText text;
  text.path = path.empty() ? name() : path + " " + name();
  text.description = app_->get_description();
  text.footer = app_->get_footer();
  text.passes_arguments_on = app_->get_prefix_command();
  for (const CLI::Option* option : app_->get_options()) {
    if (!option->get_group().empty()) text.options.push_back(option_text(*option));
  }
  for (const Command& command : commands()) {
    text.commands.push_back(DescribedCommand(command).text(text.path));
  }
  return text;
}

bool Command::has_option(const std::string& name) const {
  return app_->get_option_no_throw(name) != nullptr;
}

bool Command::takes_value(const std::string& name) const {
  const CLI::Option* option = app_->get_option_no_throw(name);
  return option != nullptr && option->get_items_expected_max() > 0;
}

CommandLine::CommandLine(const std::string& name, const std::string& description)
    : Command(nullptr), owned_(std::make_unique<CLI::App>(description, name)) {
  app_ = owned_.get();
}

CommandLine::~CommandLine() = default;

void CommandLine::version_flag(const std::string& text, const std::string& help) {
  app_->set_version_flag("--version", text, help);
}

void CommandLine::parse(std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 wants them last to first
  try {
    app_->parse(arguments);
  } catch (const CLI::Success& asked) {
    app_->exit(asked);
  } catch (const CLI::ExtrasError&) {
    throw UsageError(about_unknown_arguments());
  } catch (const CLI::RequiredError& error) {
    // CLI11 looks for missing ones first, although a misspelt option is the more likely mistake.
    const std::string unknown = about_unknown_arguments();
    throw UsageError(unknown.empty() ? usage_text(error) : unknown);
  } catch (const CLI::ArgumentMismatch& error) {
    throw UsageError(usage_text(error));
  } catch (const CLI::ExcludesError& error) {
    throw UsageError(usage_text(error));
  } catch (const CLI::ConversionError& error) {
    throw UsageError(usage_text(error, Command(named_in(app_))));
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
}

// In the order in which they were typed; CLI11's own message reverses them. Empty: all are known.
std::string CommandLine::about_unknown_arguments() const {
  std::string text;
  std::string near;
  for (const std::string& argument : app_->remaining(true)) {
    if (argument == "--") break;
    text += (text.empty() ? "" : " ") + argument;
    if (near.empty()) near = nearest_option(*named_in(app_), argument);
  }
  if (text.empty()) return {};
  return "unknown argument: " + text + (near.empty() ? "" : "; did you mean " + near + "?");
}

std::string CommandLine::named_command() const {
  std::string name = app_->get_name();
  for (const CLI::App* command = app_; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return name;
}

}  // namespace atp
