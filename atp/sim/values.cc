#include "atp/sim/values.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "atp/base/random.h"
#include "atp/wire/element.h"

namespace atp::sim {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float signed_unit(Random& random) { return static_cast<float>(2 * random.uniform() - 1); }

float tiny(Random& random) {
  return random.chance(0.5) ? signed_unit(random) * 1e-8F
                            : std::bit_cast<float>(static_cast<std::uint32_t>(random.below(1000)));
}

// At the scale 1e8 an odd multiple of 2^-9 lies exactly between two integers.
float tie(Random& random) {
  return static_cast<float>(static_cast<int>(random.below(64)) * 2 - 63) * 0x1p-9F;
}

float huge(Random& random) {
  return std::ldexp(signed_unit(random), static_cast<int>(random.below(129)));
}

float not_finite(Random& random) {
  constexpr std::array kSpecial{kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  if (random.chance(0.1)) return kSpecial[random.below(kSpecial.size())];
  return signed_unit(random);
}

float draw(Values values, bool is_the_one, Random& random) {
  switch (values) {
    case Values::kSmall: return signed_unit(random);
    case Values::kTiny: return tiny(random);
    case Values::kTies: return tie(random);
    case Values::kLarge: return signed_unit(random) * 12;
    case Values::kHuge: return random.chance(0.3) ? huge(random) : signed_unit(random);
    case Values::kOneHuge: return is_the_one ? 22 + signed_unit(random) : 0;
    case Values::kNotFinite: return not_finite(random);
    case Values::kZero: return random.chance(0.5) ? 0.0F : -0.0F;
    case Values::kMixed:
      return std::ldexp(signed_unit(random), static_cast<int>(random.below(277)) - 148);
    case Values::kCount: break;
  }
  return 0;
}

// The nearest value of the type, in its bytes.
void put(DataType type, float value, std::byte* at) {
  switch (type) {
    case DataType::kFloat32: element::Float32::store(at, value); break;
    case DataType::kBFloat16: element::BFloat16::store(at, value); break;
    case DataType::kFloat16: element::Float16::store(at, value); break;
    case DataType::kInt32: break;
  }
}

}  // namespace

void fill_input(const JobPlan& job, std::uint64_t number, Rank rank, const OperationPlan& operation,
                std::span<std::byte> out) {
  Random random(job.data_seed * 1000003 + number * 1031 + rank);
  const bool is_the_one = rank == number % job.world_size;
  const DataType type = operation.spec.type;
  for (std::size_t at = 0; at < out.size(); at += bytes_of(type)) {
    if (type == DataType::kInt32) {
      const auto value = static_cast<std::uint32_t>(random.next());
      std::memcpy(&out[at], &value, sizeof value);
    } else {
      put(type, draw(operation.values, is_the_one, random), &out[at]);
    }
  }
}

}  // namespace atp::sim
