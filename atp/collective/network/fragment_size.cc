#include "atp/collective/network/fragment_size.h"

#include <algorithm>
#include <string>

#include "atp/base/text.h"
#include "atp/driver/udp/path_mtu.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

struct Narrowest {
  Endpoint hop;
  std::size_t mtu = 0;
  std::uint16_t values = ATP_VALUES_MAX;
};

Result<Narrowest> narrowest_hop(const CommunicatorOptions& options, std::uint8_t bitmap_words) {
  Narrowest narrowest;
  for (const Endpoint& hop : options.route) {
    const Result<std::size_t> mtu = path_mtu(hop, options.ports);
    if (!mtu) return mtu.error();
    const std::uint16_t values = values_for_mtu(mtu.value(), bitmap_words, options.tag_bytes());
    if (values <= narrowest.values) narrowest = {hop, mtu.value(), values};
  }
  return narrowest;
}

Error too_large(std::size_t asked, const Narrowest& narrowest, std::size_t datagram) {
  return {"asked for " + with_commas(asked) + " values per fragment (" + with_commas(datagram) +
          "-byte datagrams), but the route to " + to_string(narrowest.hop) + " carries at most " +
          with_commas(narrowest.values) + " (MTU " + std::to_string(narrowest.mtu) +
          "): set ATP_VALUES_PER_FRAGMENT=" + std::to_string(narrowest.values) +
          " or less, or raise the MTU"};
}

}  // namespace

Result<std::uint16_t> choose_value_count(const CommunicatorOptions& options) {
  const std::uint8_t bitmap_words = bitmap_words_for(options.world_size);
  const Result<Narrowest> narrowest = narrowest_hop(options, bitmap_words);
  if (!narrowest) return narrowest.error();
  if (narrowest.value().values == 0) {
    return Error{"the route to " + to_string(narrowest.value().hop) + " has an MTU of " +
                 std::to_string(narrowest.value().mtu) + " bytes, too small for a single value"};
  }
  const std::size_t asked = options.values_per_fragment;
  if (asked == 0) return narrowest.value().values;
  if (asked > narrowest.value().values) {
    return too_large(asked, narrowest.value(),
                     mtu_for_values(asked, bitmap_words, options.tag_bytes()));
  }
  return static_cast<std::uint16_t>(asked);
}

}  // namespace atp
