#include "atp/cli/help/completion.h"

#include <fmt/core.h>

#include <string_view>

// The program prints the script from the same description as --help, so completion offers exactly
// what this build accepts.

namespace atp {
namespace {

// `words` and `commands` are cases built below. A word before the cursor extends the path only if
// it names a command there, and the path ends at a command that is not a group.
constexpr std::string_view kBash = R"(# Completion of atp, printed by `atp completion`: do not edit.
_atp() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local path=atp choices= i
  # bash splits --option=value into three words.
  if [ "$word" = "=" ]; then
    word=
  elif [ "$before" = "=" ]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    # The words after it are another program's.
    [ "${{COMP_WORDS[i]}}" != "--" ] || return 0
    case "$path ${{COMP_WORDS[i]}}" in
{commands}    esac
  done
  case "$path $before" in
{values}    *)
      case "$path" in
{words}      esac
      ;;
  esac
  COMPREPLY=($(compgen -W "$choices" -- "$word"))
}}
complete -o bashdefault -o default -F _atp atp
)";

struct Cases {
  std::string commands;  // a path extended by one word
  std::string values;    // completions after an option
  std::string words;     // completions after a path
};

void add_option_cases(const CommandText& command, Cases& cases) {
  for (const OptionText& option : command.options) {
    if (option.positional || option.value.empty()) continue;
    std::string patterns;
    for (const std::string& name : option.names) {
      patterns += fmt::format("{}\"{} {}\"", patterns.empty() ? "" : " | ", command.path, name);
    }
    std::string choices;
    for (const std::string& choice : option.choices) choices += " " + choice;
    // Without choices nothing is offered, and bash falls back to file names.
    cases.values += choices.empty()
                        ? fmt::format("    {}) return 0 ;;\n", patterns)
                        : fmt::format("    {}) choices=\"{}\" ;;\n", patterns, choices.substr(1));
  }
}

void add_cases(const CommandText& command, Cases& cases) {
  std::string words;
  for (const CommandText& one : command.commands) {
    words += one.path.substr(one.path.rfind(' '));
    cases.commands += fmt::format("      \"{0}\") path=\"{0}\" ;;\n", one.path);
  }
  for (const OptionText& option : command.options) {
    for (const std::string& choice : option.positional ? option.choices : option.names) {
      words += " " + choice;
    }
  }
  if (!words.empty()) {
    cases.words +=
        fmt::format("        \"{}\") choices=\"{}\" ;;\n", command.path, words.substr(1));
  }
  add_option_cases(command, cases);
  for (const CommandText& one : command.commands) add_cases(one, cases);
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  Cases cases;
  add_cases(program, cases);
  return fmt::format(kBash, fmt::arg("commands", cases.commands), fmt::arg("values", cases.values),
                     fmt::arg("words", cases.words));
}

}  // namespace atp
