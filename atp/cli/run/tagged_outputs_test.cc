#include "atp/cli/run/tagged_outputs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace atp {
namespace {

// Two writers, and the pipe that receives their output.
class Outputs : public ::testing::Test {
 protected:
  Outputs() {
    EXPECT_EQ(pipe2(sink_.data(), O_NONBLOCK), 0);
    for (std::size_t i = 0; i < writers_.size(); ++i) {
      writers_[i] = outputs_.open("[" + std::to_string(i) + "] ", sink_[1]);
    }
  }
  ~Outputs() override {
    for (const int fd : sink_) close(fd);
    for (const int fd : writers_) close(fd);
  }
  void write(std::size_t writer, const std::string& text) {
    EXPECT_EQ(::write(writers_[writer], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  void end(std::size_t writer) { close(std::exchange(writers_[writer], -1)); }
  std::size_t forward() {
    std::vector<pollfd> waiting;
    outputs_.add_to(waiting);
    EXPECT_GT(poll(waiting.data(), waiting.size(), -1), 0);
    outputs_.forward(waiting);
    return waiting.size();
  }
  std::string came() const {
    std::array<char, 1000> bytes{};
    const ssize_t got = read(sink_[0], bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }

  TaggedOutputs outputs_;
  std::array<int, 2> sink_{};
  std::array<int, 2> writers_{};
};

TEST_F(Outputs, EachLineHasTheTagOfItsWriter) {
  write(0, "a\nb");
  forward();
  EXPECT_EQ(came(), "[0] a\n");
  write(1, "c\n");
  forward();
  write(0, "d\n");
  forward();
  EXPECT_EQ(came(), "[1] c\n[0] bd\n");
}

TEST_F(Outputs, EndedStreamsAreNotPolledAnyMore) {
  write(0, "a");
  end(0);
  forward();  // reads the text
  EXPECT_EQ(forward(), 2u) << "reads the end";
  EXPECT_EQ(came(), "[0] a\n");
  end(1);
  EXPECT_EQ(forward(), 1u);
}

TEST_F(Outputs, TheRestIsForwardedAtTheEndEvenIfAWriterGoesOn) {
  write(0, "a");
  write(1, "b\nc");
  end(1);
  outputs_.finish();
  EXPECT_EQ(came(), "[0] a\n[1] b\n[1] c\n");
}

TEST(LineTagger, TagsWholeLinesOnly) {
  LineTagger tagger("[3] ");
  EXPECT_EQ(tagger.add("one\ntw"), "[3] one\n");
  EXPECT_EQ(tagger.add(""), "");
  EXPECT_EQ(tagger.add("o"), "");
  EXPECT_EQ(tagger.add("\n\nthree"), "[3] two\n[3] \n");
  EXPECT_EQ(tagger.finish(), "[3] three\n");
  EXPECT_EQ(tagger.finish(), "");
}

}  // namespace

}  // namespace atp
