#include "atp/cli/run/tagged_outputs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace atp {
namespace {

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return;  // the reader is gone
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::string LineTagger::add(std::string_view bytes) {
  std::string out;
  for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    out += tag_;
    out += begun_;
    out += bytes.substr(0, end + 1);
    begun_.clear();
    bytes.remove_prefix(end + 1);
  }
  begun_ += bytes;
  return out;
}

std::string LineTagger::finish() { return begun_.empty() ? std::string() : add("\n"); }

TaggedOutputs::~TaggedOutputs() {
  for (const Output& output : outputs_) close(output.from);
}

int TaggedOutputs::open(const std::string& tag, int to) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  outputs_.push_back({ends[0], to, LineTagger(tag)});
  return ends[1];
}

void TaggedOutputs::add_to(std::vector<pollfd>& waiting) const {
  for (const Output& output : outputs_) waiting.push_back({output.from, POLLIN, 0});
}

void TaggedOutputs::forward(std::span<const pollfd> ready) {
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (ready[i].revents != 0) forward(outputs_[i]);
  }
  forget_ended();
}

void TaggedOutputs::forward(Output& output) {
  char bytes[65536];
  const ssize_t got = read(output.from, bytes, sizeof bytes);
  if (got > 0) {
    write_all(output.to, output.tagger.add({bytes, static_cast<std::size_t>(got)}));
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    write_all(output.to, output.tagger.finish());
    close(output.from);
    output.from = -1;
  }
}

void TaggedOutputs::finish() {
  for (Output& output : outputs_) {
    while (output.from >= 0) {
      pollfd waiting{output.from, POLLIN, 0};
      if (poll(&waiting, 1, 0) <= 0) break;
      forward(output);
    }
    write_all(output.to, output.tagger.finish());
  }
  forget_ended();
}

void TaggedOutputs::forget_ended() {
  std::erase_if(outputs_, [](const Output& output) { return output.from < 0; });
}

}  // namespace atp
