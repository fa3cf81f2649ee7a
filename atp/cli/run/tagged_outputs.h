#pragma once

#include <poll.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace atp {

// Puts a tag before each line of a stream that comes in pieces. Only whole lines go out, so the
// lines of several ranks never mix.
class LineTagger {
 public:
  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}

  // Returns the tagged lines that `bytes` completes.
  std::string add(std::string_view bytes);
  // The stream has ended: what remains, as a line.
  std::string finish();

 private:
  std::string tag_;
  std::string begun_;  // the line that is not complete yet
};

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
