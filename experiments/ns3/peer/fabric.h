#pragma once

// ns-3's part of the comparison: hosts in racks, joined by ns-3's point-to-point devices, channels
// and drop-tail queues, which decide when a packet arrives and whether it is lost.

#include <ns3/drop-tail-queue.h>
#include <ns3/node.h>
#include <ns3/packet.h>
#include <ns3/point-to-point-channel.h>
#include <ns3/point-to-point-net-device.h>
#include <ns3/simulator.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace peer {

// "--name value" pairs.
class Options {
 public:
  Options(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) values_[argv[i]] = argv[i + 1];
  }
  double number(const std::string& name) const {
    const auto found = values_.find("--" + name);
    if (found != values_.end()) return std::stod(found->second);
    std::cerr << "missing option --" << name << "\n";
    std::exit(2);
  }
  std::uint32_t count(const std::string& name) const {
    return static_cast<std::uint32_t>(number(name));
  }

 private:
  std::map<std::string, std::string> values_;
};

struct Message {
  enum Kind : std::uint32_t { kGradient, kParameter, kJoin, kProve, kJoinAck };

  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t job = 0;
  std::uint32_t about = 0;  // a fragment's sequence, or the host of the worker that joins
  std::uint32_t wire_bytes = 0;
  Kind kind = kGradient;
  bool is_straight = false;  // of JOINs: past all switches
  bool has_proof = false;    // of JOINs: the receiver has told the sender its proof
  bool ecn = false;
};

struct LinkPlan {
  double gbit = 0;
  std::uint32_t delay_ns = 0;
  std::uint32_t host_ns = 0;  // of the receiving host, per packet
  std::uint32_t queue_bytes = 0;
  std::uint32_t ecn_bytes = 0;
};

// One direction of a cable. The receiving host's time per packet follows the wire's and delays the
// next packet as well: in ns-3 these are a longer delay and a gap between frames.
class Link {
 public:
  using Deliver = std::function<void(const Message&)>;

  Link(const LinkPlan& plan, Deliver deliver)
      : ecn_bytes_(plan.ecn_bytes > 0 ? plan.ecn_bytes : ~0U), deliver_(std::move(deliver)) {
    const auto node = [] { return ns3::CreateObject<ns3::Node>(); };
    const auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
    channel->SetAttribute("Delay", ns3::TimeValue(ns3::NanoSeconds(plan.delay_ns + plan.host_ns)));
    queue_->SetMaxSize({ns3::BYTES, plan.queue_bytes > 0 ? plan.queue_bytes : 1U << 30});
    sender_->SetDataRate(ns3::DataRate(static_cast<std::uint64_t>(plan.gbit * 1e9)));
    sender_->SetInterframeGap(ns3::NanoSeconds(plan.host_ns));
    for (const auto& device : {sender_, receiver_}) {
      device->SetAddress(ns3::Mac48Address::Allocate());
      device->SetQueue(device == sender_ ? queue_ : ns3::CreateObject<Queue>());
      node()->AddDevice(device);
      device->Attach(channel);
    }
    receiver_->SetReceiveCallback(
        ns3::Callback<bool, ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet>, std::uint16_t,
                      const ns3::Address&>(
            [this](auto, ns3::Ptr<const ns3::Packet> packet, auto, const auto&) {
              Message message;
              packet->CopyData(reinterpret_cast<std::uint8_t*>(&message), sizeof message);
              deliver_(message);
              return true;
            }));
  }
  Link(const Link&) = delete;

  void send(Message message) {
    constexpr std::uint32_t kPpp = 2;  // bytes that the device adds
    const bool marks = backlog(message.wire_bytes) > ecn_bytes_;
    marked_ += marks;
    message.ecn |= marks;
    const auto packet =
        ns3::Create<ns3::Packet>(reinterpret_cast<const std::uint8_t*>(&message), sizeof message);
    packet->AddPaddingAtEnd(message.wire_bytes - sizeof message - kPpp);
    sender_->Send(packet, receiver_->GetAddress(), 0x0800);
  }

  std::uint64_t lost() const { return queue_->GetTotalDroppedPackets(); }
  std::uint64_t marked() const { return marked_; }

 private:
  using Queue = ns3::DropTailQueue<ns3::Packet>;

  // What a packet has to wait for. ns-3's queue does not hold the packet that is being sent.
  std::uint32_t backlog(std::uint32_t being_sent) const {
    return queue_->IsEmpty() ? 0 : queue_->GetNBytes() + being_sent;
  }

  std::uint32_t ecn_bytes_;
  Deliver deliver_;
  ns3::Ptr<Queue> queue_ = ns3::CreateObject<Queue>();
  ns3::Ptr<ns3::PointToPointNetDevice> sender_ = ns3::CreateObject<ns3::PointToPointNetDevice>();
  ns3::Ptr<ns3::PointToPointNetDevice> receiver_ = ns3::CreateObject<ns3::PointToPointNetDevice>();
  std::uint64_t marked_ = 0;
};

// Hosts in racks. A rack and the core of the network switch without a delay; a link without a rate
// is left out.
class Fabric {
 public:
  std::uint32_t add_rack(const LinkPlan& plan) {
    const auto rack = static_cast<std::uint32_t>(racks_.size());
    racks_.push_back(port(
        plan, [this](const Message& m) { into_rack(hosts_[m.to].rack, m); },
        [this, rack](const Message& m) { in_rack(rack, m); }));
    return rack;
  }

  std::uint32_t add_host(std::uint32_t rack, const LinkPlan& plan, Link::Deliver deliver) {
    hosts_.push_back({rack, std::move(deliver), {}});
    const auto host = static_cast<std::uint32_t>(hosts_.size() - 1);
    hosts_[host].port = port(
        plan, [this, rack](const Message& m) { in_rack(rack, m); },
        [this, host](const Message& m) { hosts_[host].deliver(m); });
    return host;
  }

  void send(const Message& message) {
    const Host& from = hosts_[message.from];
    from.port.up ? from.port.up->send(message) : in_rack(from.rack, message);
  }

  std::uint64_t lost() const { return sum(&Link::lost); }
  std::uint64_t marked() const { return sum(&Link::marked); }

 private:
  struct Port {
    std::unique_ptr<Link> up, down;
  };
  struct Host {
    std::uint32_t rack;
    Link::Deliver deliver;
    Port port;
  };

  static Port port(const LinkPlan& plan, Link::Deliver up, Link::Deliver down) {
    if (plan.gbit == 0) return {};
    LinkPlan sending = plan;
    sending.host_ns = 0;
    return {std::make_unique<Link>(sending, std::move(up)),
            std::make_unique<Link>(plan, std::move(down))};
  }

  void in_rack(std::uint32_t rack, const Message& message) {
    const Host& to = hosts_[message.to];
    if (to.rack == rack) {
      to.port.down ? to.port.down->send(message) : to.deliver(message);
    } else {
      racks_[rack].up ? racks_[rack].up->send(message) : into_rack(to.rack, message);
    }
  }
  void into_rack(std::uint32_t rack, const Message& message) {
    racks_[rack].down ? racks_[rack].down->send(message) : in_rack(rack, message);
  }

  std::uint64_t sum(std::uint64_t (Link::*count)() const) const {
    std::uint64_t total = 0;
    const auto add = [&](const Port& port) {
      for (const Link* link : {port.up.get(), port.down.get()}) {
        if (link != nullptr) total += (link->*count)();
      }
    };
    for (const Port& rack : racks_) add(rack);
    for (const Host& host : hosts_) add(host.port);
    return total;
  }

  std::vector<Port> racks_;
  std::vector<Host> hosts_;
};

}  // namespace peer
