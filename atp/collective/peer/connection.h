#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "atp/collective/base/closed_in_child.h"
#include "atp/collective/peer/frame.h"
#include "atp/driver/tcp/tcp_socket.h"

// Sends and receives frames over one TCP connection without ever waiting. Large data is moved
// directly from and to its memory in one system call; small frames are received together.

namespace atp {

class PeerConnection {
 public:
  explicit PeerConnection(TcpSocket socket);

  struct Place {
    std::byte* memory = nullptr;  // null: drop the bytes
    std::size_t room = 0;
  };
  // Receives what comes in.
  class Sink {
   public:
    virtual ~Sink() = default;
    // The destination of the message bytes that follow this frame.
    virtual Place begin(const Frame& frame) = 0;
    // These bytes have arrived there. Returns the destination of those that follow.
    virtual Place arrived(const Frame& frame, std::size_t bytes) = 0;
    // A frame that is not part of a message.
    virtual void hear(const Frame& frame, const std::string& text) = 0;
  };
  // A piece of a message to send.
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

  // Queues a frame that goes out before any further piece of a message.
  void post(Frame frame, const std::string& text = {});
  bool has_output() const { return !posted_.empty() || piece_; }
  // Sends as many of the queued frames as the kernel takes, unless a piece has been started.
  void send_posted_frames();
  // kIdle: the kernel takes no more for now (blocked()), or there is nothing more to send.
  End send(const Source& source);
  bool blocked() const { return blocked_; }
  // The memory of all messages is about to be freed: a piece that was started is sent from a copy,
  // so that the frames after it can be parsed, and incoming data is dropped.
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
  std::size_t left_ = 0;  // bytes after frame_ still to come
  Place to_;
  bool is_text_ = false;
  std::string text_;
  bool may_have_more_ = true;  // the last call filled its buffer
  bool drops_ = false;
  End end_ = End::kIdle;
  int error_ = 0;
  Traffic out_;
  Traffic in_;
};

}  // namespace atp
