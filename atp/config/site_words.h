#pragma once

#include <map>
#include <string>

#include "atp/config/yaml_reader.h"

// The words of a cluster file that must be well formed and stand once.

namespace atp {

// Letters, digits, '-', '_' and '.': names stand in lists with commas and in names of files.
std::string read_name(const YamlValue& value);

// The IPv4 or IPv6 address of a host, written as inet_ntop() does, so that equal ones are equal
// texts.
std::string read_address(const YamlValue& value);

// Where each word was seen first.
class Seen {
 public:
  // Refuses a word that was seen before; the advice ends the message.
  void add(const std::string& word, const Place& place, const char* advice);

 private:
  std::map<std::string, Place> first_;
};

}  // namespace atp
