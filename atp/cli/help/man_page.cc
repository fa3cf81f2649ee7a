#include "atp/cli/help/man_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

namespace atp {
namespace {

// troff turns a plain hyphen into a typographic one, which cannot be pasted into a shell, and takes
// a dot or a quote at the start of a line for a request.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool at_head = out.empty() || out.back() == '\n';
    if (at_head && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string synopsis(const CommandText& command) {
  std::string text = fmt::format(".B {}\n", escaped(command.path));
  if (command.passes_arguments_on) return text + "[\\fIARGUMENTS\\fR]\n";
  text += "[\\fIOPTIONS\\fR]\n";
  if (!command.commands.empty()) text += "\\fICOMMAND\\fR\n";
  for (const OptionText& option : command.options) {
    if (!option.positional) continue;
    const std::string name = escaped(option.value.empty() ? option.names[0] : option.value);
    const std::string shown = fmt::format("\\fI{}\\fR", name);
    text += option.required ? shown + "\n" : "[" + shown + "]\n";
  }
  return text;
}

std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

std::string option_entry(const OptionText& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", escaped(name));
  }
  if (!option.value.empty()) names += fmt::format(" \\fI{}\\fR", escaped(option.value));
  std::string choices;
  for (const std::string& choice : option.choices) {
    choices += fmt::format("{}{}", choices.empty() ? "" : ", ", choice);
  }
  std::string text = sentence(option.help);
  if (!option.range.empty()) text += fmt::format(" Range: {}.", option.range);
  if (!choices.empty()) text += fmt::format(" One of: {}.", choices);
  if (!option.default_value.empty()) text += fmt::format(" Default: {}.", option.default_value);
  return fmt::format(".TP\n{}\n{}\n", names, escaped(text));
}

std::string options_section(const CommandText& command) {
  if (command.passes_arguments_on) {
    return fmt::format(".SH OPTIONS\nPrinted by \\fB{} \\-\\-help\\fR.\n", escaped(command.path));
  }
  std::string text = ".SH OPTIONS\n";
  for (const OptionText& option : command.options) text += option_entry(option);
  return text;
}

std::string commands_section(const CommandText& command) {
  if (command.commands.empty()) return {};
  std::string text = ".SH COMMANDS\n";
  for (const CommandText& one : command.commands) {
    text += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", escaped(man_page_name(one)),
                        escaped(sentence(one.description)));
  }
  return text;
}

// A footer is a few "Heading: ..." lines, each followed by preformatted lines.
std::string footer_sections(const std::string& footer) {
  std::string text;
  bool is_open = false;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    const bool is_examples = line.starts_with("Examples");
    const bool is_exit = line.starts_with("Exit code");
    if (is_examples || is_exit) {
      text += is_open ? ".fi\n" : "";
      text += fmt::format(".SH {}\n.nf\n", is_examples ? "EXAMPLES" : "EXIT STATUS");
      is_open = true;
      if (is_examples) continue;
    } else if (!is_open) {
      text += ".SH NOTES\n.nf\n";
      is_open = true;
    }
    text += escaped(line) + "\n";
  }
  return is_open ? text + ".fi\n" : text;
}

}  // namespace

std::string man_page_name(const CommandText& command) {
  std::string name = command.path;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string man_page(const CommandText& command, const std::string& version) {
  const std::string name = man_page_name(command);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text =
      fmt::format(".TH {} 1 \"\" \"atp {}\" \"User Commands\"\n", escaped(title), version);
  text += fmt::format(".SH NAME\n{} \\- {}\n", escaped(name), escaped(command.description));
  text += ".SH SYNOPSIS\n" + synopsis(command);
  text += options_section(command) + commands_section(command) + footer_sections(command.footer);
  if (command.path != "atp") text += ".SH SEE ALSO\n\\fBatp\\fR(1)\n";
  return text;
}

}  // namespace atp
