#include "atp/collective/shm/rendezvous_side.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "atp/base/time.h"

namespace atp {

void RendezvousHello::set_numbers(std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), numbers.size()), numbers.begin());
}

std::string_view RendezvousHello::numbers_text() const {
  return {numbers.data(), strnlen(numbers.data(), numbers.size())};
}

RendezvousSide::RendezvousSide(const HostRendezvousOptions& options)
    : options_(options), begun_(Clock::now()), until_(begun_ + bounded_timeout(options.timeout)) {}

std::string RendezvousSide::name() const {
  const std::string name = "atp-" + std::to_string(geteuid()) + "-" +
                           std::to_string(options_.job.job) + "-" +
                           std::to_string(options_.job.incarnation);
  return options_.of_several ? name + "-" + std::to_string(options_.of_several->number) : name;
}

SegmentShape RendezvousSide::shape() const {
  return options_.of_several
             ? SegmentShape::of_several_hosts(options_.world_size, options_.of_several->most_ranks)
             : SegmentShape::of_one_host(options_.world_size);
}

Result<HostPlace> RendezvousSide::take_place(Segment segment) const {
  Result<Presence> presence = Presence::of(segment.descriptor(), options_.rank);
  if (!presence) return presence.error();
  segment.board_of(options_.rank).process.store(static_cast<std::uint32_t>(getpid()));
  return HostPlace{std::move(segment), std::move(presence).value()};
}

Rank RendezvousSide::number_in_job(std::size_t rank) const {
  const auto& several = options_.of_several;
  const bool is_named = several && rank < several->ranks.size();
  return static_cast<Rank>(is_named ? several->ranks[rank] : rank);
}

std::string RendezvousSide::rank_text(std::size_t rank) const {
  return "rank " + std::to_string(number_in_job(rank));
}

std::string RendezvousSide::waits_text(const std::string& whom) const {
  return rank_text(options_.rank) + " waits for " + whom + " to meet the ranks of this host";
}

// Or what has ended the wait for its words.
Error RendezvousSide::lost(const std::string& whom, const std::string& why) const {
  if (const auto interruption = why_interrupted(options_.interruption)) return {*interruption};
  return {rank_text(options_.rank) + " has lost " + whom +
          " while the ranks of this host were meeting: " + why};
}

// An error for the whole job: without a socket this rank cannot tell the others to use the route.
Error RendezvousSide::has_no_socket(const Error& why) const {
  return {rank_text(options_.rank) + " cannot meet the other ranks of this host: " + why.message +
          "; fix that, or start all ranks with ATP_HOST_MEMORY=0 and a route"};
}

}  // namespace atp
