#pragma once

#include <poll.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace atp {

// Prefixes each line of a stream with a tag. The stream may arrive in pieces of any size; only
// whole lines go out, so lines of different ranks never mix.
class LineTagger {
 public:
  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}

  // Returns the tagged lines that `bytes` completes.
  std::string add(std::string_view bytes);
  // Ends the stream: returns the rest as a line.
  std::string finish();

 private:
  std::string tag_;
  std::string begun_;  // the incomplete line
};

// Pipes that forward each line to its original destination, prefixed with the tag of its writer.
class TaggedOutputs {
 public:
  TaggedOutputs() = default;
  ~TaggedOutputs();
  TaggedOutputs(const TaggedOutputs&) = delete;
  TaggedOutputs& operator=(const TaggedOutputs&) = delete;

  // Returns the writer's end, which the caller closes once the writer has it; -1 and errno on
  // failure.
  int open(const std::string& tag, int to);
  // Adds the descriptors for poll(); the next one handles its result.
  void add_to(std::vector<pollfd>& waiting) const;
  void forward(std::span<const pollfd> ready);
  // Forwards what is left in the pipes, without waiting for descendants of a writer that hold one
  // open.
  void finish();

 private:
  struct Output {
    int from = -1;
    int to = -1;
    LineTagger tagger;
  };
  static void forward(Output& output);
  void forget_ended();

  std::vector<Output> outputs_;
};

}  // namespace atp
