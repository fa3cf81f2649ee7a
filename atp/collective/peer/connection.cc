// Moves frames in and out of one socket: which bytes go next, and where incoming ones belong.
#include "atp/collective/peer/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace atp {
namespace {

// How many system calls one connection may make before the others get their turn.
constexpr int kMovesInARound = 16;

bool is_message(Frame::Kind kind) { return kind == Frame::Kind::kData; }

// Whether the message of this frame goes on in another one.
bool has_more_frames(const Frame& frame) {
  return is_message(frame.kind) && frame.offset + frame.length < frame.bytes;
}

bool makes_sense(const Frame& frame) {
  const std::uint64_t most = is_message(frame.kind) ? kMaxFrameBytes : kMaxTextBytes;
  return frame.magic == Frame::kMagic && frame.length <= most && frame.offset <= frame.bytes + most;
}

// Text from the network is shown to users, so it must not contain terminal control characters.
std::string shown(std::string text) {
  for (char& byte : text) {
    if (byte < ' ' || byte > '~') byte = '?';
  }
  return text;
}

}  // namespace

PeerConnection::PeerConnection(TcpSocket socket)
    : socket_(std::move(socket)),
      closed_in_child_({socket_.fd()}),
      stage_(std::make_unique_for_overwrite<std::byte[]>(kStageBytes)) {}

void PeerConnection::post(Frame frame, const std::string& text) {
  const std::string cut = text.substr(0, kMaxTextBytes);
  frame.length = cut.size();
  posted_.append(reinterpret_cast<const char*>(&frame), sizeof frame);
  posted_ += cut;
}

// Handles the result of a system call. False: no more for now.
bool PeerConnection::take_result(ssize_t moved, Traffic& traffic) {
  ++traffic.calls;
  if (moved > 0) {
    traffic.bytes += static_cast<std::uint64_t>(moved);
    return true;
  }
  if (moved == 0) {
    end_ = End::kClosed;
  } else if (errno != EAGAIN && errno != EINTR) {
    error_ = errno;
    end_ = End::kBroken;
  }
  return false;
}

bool PeerConnection::send_posted() {
  const ssize_t moved = ::send(socket_.fd(), posted_.data() + posted_done_,
                               posted_.size() - posted_done_, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (!take_result(moved, out_)) {
    blocked_ = true;
    return false;
  }
  posted_done_ += static_cast<std::size_t>(moved);
  if (posted_done_ == posted_.size()) {
    posted_.clear();
    posted_done_ = 0;
  }
  return true;
}

bool PeerConnection::send_piece(const Source& source) {
  std::array<iovec, 2> parts{};
  std::size_t count = 0;
  if (piece_done_ < sizeof(Frame)) {
    parts[count++] = {reinterpret_cast<std::byte*>(&piece_->frame) + piece_done_,
                      sizeof(Frame) - piece_done_};
  }
  const std::size_t done = std::max(piece_done_, sizeof(Frame)) - sizeof(Frame);
  if (done < piece_->frame.length) {
    // sendmsg() takes the same structure for both directions.
    parts[count++] = {const_cast<std::byte*>(piece_->bytes) + done, piece_->frame.length - done};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t moved = sendmsg(socket_.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (!take_result(moved, out_)) {
    blocked_ = true;
    return false;
  }
  piece_done_ += static_cast<std::size_t>(moved);
  if (piece_done_ == sizeof(Frame) + piece_->frame.length) {
    const Piece whole = *std::exchange(piece_, std::nullopt);
    piece_done_ = 0;
    source.sent(whole);
  }
  return true;
}

void PeerConnection::send_posted_frames() {
  while (piece_done_ == 0 && !posted_.empty() && send_posted()) {
  }
}

PeerConnection::End PeerConnection::send(const Source& source) {
  blocked_ = false;
  for (int i = 0; i < kMovesInARound; ++i) {
    // Finish a piece that has been started before anything else.
    if (!piece_ && posted_.empty()) {
      piece_ = source.next();
      if (!piece_) return end_;
    }
    if (!(piece_ && posted_done_ == 0 && (piece_done_ > 0 || posted_.empty()) ? send_piece(source)
                                                                              : send_posted())) {
      return end_;
    }
  }
  return End::kMore;
}

void PeerConnection::let_go_of_memory() {
  drops_ = true;
  if (!is_text_) to_ = {};
  if (!piece_) return;
  if (piece_done_ > 0) {
    std::string rest;
    if (piece_done_ < sizeof(Frame)) {
      rest.assign(reinterpret_cast<const char*>(&piece_->frame) + piece_done_,
                  sizeof(Frame) - piece_done_);
    }
    const std::size_t done = std::max(piece_done_, sizeof(Frame)) - sizeof(Frame);
    rest.append(reinterpret_cast<const char*>(piece_->bytes) + done, piece_->frame.length - done);
    posted_ = rest + posted_;  // nothing of posted_ has gone out yet
  }
  piece_.reset();
  piece_done_ = 0;
}

// Notes that this many bytes after the frame are where they belong.
void PeerConnection::take(Sink& sink, std::size_t bytes) {
  left_ -= bytes;
  if (!is_text_) {
    if (drops_) return;
    const Place next = sink.arrived(frame_, bytes);
    to_ = drops_ ? Place{} : next;
    return;
  }
  to_ = {to_.memory + bytes, to_.room - bytes};
  if (left_ > 0) return;
  is_text_ = false;
  to_ = {};
  sink.hear(frame_, shown(text_));
}

bool PeerConnection::begin_frame(Sink& sink) {
  std::memcpy(&frame_, stage_.get() + stage_begin_, sizeof frame_);
  if (!makes_sense(frame_)) {
    end_ = End::kNonsense;
    return false;
  }
  stage_begin_ += sizeof frame_;
  left_ = frame_.length;
  is_text_ = !is_message(frame_.kind);
  if (is_text_) {
    text_.assign(left_, '\0');
    to_ = {reinterpret_cast<std::byte*>(text_.data()), left_};
  } else {
    to_ = drops_ ? Place{} : sink.begin(frame_);
  }
  if (left_ == 0) take(sink, 0);
  return true;
}

// Handles the frames that are complete in the stage.
bool PeerConnection::take_frames(Sink& sink) {
  while (true) {
    const std::size_t there = stage_end_ - stage_begin_;
    if (left_ > 0) {
      const std::size_t room = to_.memory == nullptr ? left_ : std::min(left_, to_.room);
      const std::size_t bytes = std::min(room, there);
      if (bytes == 0) return true;
      if (to_.memory != nullptr) std::memcpy(to_.memory, stage_.get() + stage_begin_, bytes);
      stage_begin_ += bytes;
      take(sink, bytes);
    } else if (there < sizeof(Frame)) {
      return true;
    } else if (!begin_frame(sink)) {
      return false;
    }
  }
}

bool PeerConnection::read_more(Sink& sink) {
  if (stage_begin_ > 0) {
    std::memmove(stage_.get(), stage_.get() + stage_begin_, stage_end_ - stage_begin_);
    stage_end_ -= stage_begin_;
    stage_begin_ = 0;
  }
  std::array<iovec, 2> parts{};
  std::size_t count = 0;
  const std::size_t direct = to_.memory != nullptr ? std::min(left_, to_.room) : 0;
  if (direct > 0) parts[count++] = {to_.memory, direct};
  // Within a long message only the next frame's head goes to the stage: what follows it has a place
  // of its own, and by way of the stage would be copied twice.
  const bool is_dropped = left_ > 0 && to_.memory == nullptr;
  const bool is_within = has_more_frames(frame_) && !is_dropped;
  std::size_t room = (is_within ? sizeof(Frame) : kStageBytes) - stage_end_;
  if (direct > 0 && direct < left_) room = 0;  // the next bytes have a place of their own, too
  parts[count++] = {stage_.get() + stage_end_, room};
  const ssize_t moved = readv(socket_.fd(), parts.data(), static_cast<int>(count));
  if (!take_result(moved, in_)) return false;
  const auto got = static_cast<std::size_t>(moved);
  may_have_more_ = got == direct + room;
  stage_end_ += got - std::min(got, direct);
  if (direct > 0) take(sink, std::min(got, direct));
  return true;
}

PeerConnection::End PeerConnection::receive(Sink& sink) {
  for (int i = 0; i < kMovesInARound; ++i) {
    if (!read_more(sink) || !take_frames(sink)) return end_;
    if (!may_have_more_) return End::kIdle;
  }
  return End::kMore;
}

}  // namespace atp
