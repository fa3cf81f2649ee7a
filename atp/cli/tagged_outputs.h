#pragma once

#include <poll.h>

#include <span>
#include <string>
#include <vector>

#include "atp/cli/line_tagger.h"

namespace atp {

// Pipes whose lines go on to where they would have gone, each behind the tag of its writer.
class TaggedOutputs {
 public:
  TaggedOutputs() = default;
  ~TaggedOutputs();
  TaggedOutputs(const TaggedOutputs&) = delete;
  TaggedOutputs& operator=(const TaggedOutputs&) = delete;

  // Returns the end for the writer, which the caller closes when the writer has it; −1 and errno if
  // there is none.
  int open(const std::string& tag, int to);
  // What to wait for; and what is done with what poll() made of it.
  void add_to(std::vector<pollfd>& waiting) const;
  void forward(std::span<const pollfd> ready);
  // What is left in the pipes. A descendant of a writer that holds one open is not waited for.
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
