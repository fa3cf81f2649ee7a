#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "atp/collective/host/closed_in_child.h"
#include "atp/collective/peer/frame.h"
#include "atp/driver/tcp/tcp_socket.h"

// Frames in and out over one TCP connection, without ever waiting. What is large goes from where it
// is and to where it belongs in one system call; what is small comes in with its neighbours.

namespace atp {

class PeerConnection {
 public:
  explicit PeerConnection(TcpSocket socket);

  // What becomes of what comes in.
  class Sink {
   public:
    virtual ~Sink() = default;
    // Where the bytes of a message go that follow this frame; null: nowhere.
    virtual std::byte* begin(const Frame& frame) = 0;
    virtual void arrived(const Frame& frame, std::size_t bytes) = 0;
    // Of a frame that is no part of a message.
    virtual void hear(const Frame& frame, const std::string& text) = 0;
  };
  // A piece of a message on its way out.
  struct Piece {
    Frame frame;
    const std::byte* bytes = nullptr;
    void* task = nullptr;  // the caller's
    std::uint32_t send = 0;
  };
  struct Source {
    std::function<std::optional<Piece>()> next;
    std::function<void(const Piece&)> sent;
  };
  struct Traffic {
    std::uint64_t bytes = 0;
    std::uint64_t calls = 0;
  };
  enum class End : std::uint8_t { kIdle, kMore, kClosed, kBroken, kNonsense };

  // Goes out before any further piece of a message.
  void post(Frame frame, const std::string& text = {});
  bool has_output() const { return !posted_.empty() || piece_; }
  // kIdle: the kernel takes no more for now (blocked()), or there is no more.
  End send(const Source& source);
  bool blocked() const { return blocked_; }
  // The memory of all messages is about to go: what has been begun is sent from a copy, as what
  // comes after it would not be understood else, and what comes in is dropped.
  void let_go_of_memory();

  End receive(Sink& sink);

  int fd() const { return socket_.fd(); }
  int error() const { return error_; }
  const Traffic& sent() const { return out_; }
  const Traffic& received() const { return in_; }

 private:
  static constexpr std::size_t kStageBytes = 64 * 1024;

  bool send_posted();
  bool send_piece(const Source& source);
  bool take_result(ssize_t moved, Traffic& traffic);
  bool read_more(Sink& sink);
  bool take_frames(Sink& sink);
  bool begin_frame(Sink& sink);
  void take(Sink& sink, std::size_t bytes);

  TcpSocket socket_;
  const ClosedInChild closed_in_child_;
  // Out.
  std::string posted_;
  std::size_t posted_done_ = 0;
  std::optional<Piece> piece_;
  std::size_t piece_done_ = 0;  // of its frame and bytes
  bool blocked_ = false;
  // In.
  std::unique_ptr<std::byte[]> stage_;
  std::size_t stage_begin_ = 0;
  std::size_t stage_end_ = 0;
  Frame frame_;
  std::size_t left_ = 0;     // of what follows frame_
  std::byte* to_ = nullptr;  // null: dropped
  bool is_text_ = false;
  std::string text_;
  bool may_have_more_ = true;  // the last call got all that it had room for
  bool drops_ = false;
  End end_ = End::kIdle;
  int error_ = 0;
  Traffic out_;
  Traffic in_;
};

}  // namespace atp
