#include "atp/wire/lanes.h"

#include <cstring>

#include "atp/wire/values.h"

namespace atp {
namespace {

struct Int32Lane {
  using Value = std::uint32_t;
  using Signed = std::int32_t;
  ATP_IN_VALUE_LOOP static Value read(const std::uint8_t* at) { return load_value(at); }
  ATP_IN_VALUE_LOOP static void write(std::uint8_t* at, Value value) { store_value(at, value); }
};

struct Int16 {
  using Value = std::uint16_t;
  using Signed = std::int16_t;
  ATP_IN_VALUE_LOOP static Value read(const std::uint8_t* at) { return load_value16(at); }
  ATP_IN_VALUE_LOOP static void write(std::uint8_t* at, Value value) { store_value16(at, value); }
};

struct Sum {
  template <class Lane>
  ATP_IN_VALUE_LOOP static typename Lane::Value of(typename Lane::Value a, typename Lane::Value b) {
    return static_cast<typename Lane::Value>(a + b);
  }
};

struct Max {
  template <class Lane>
  ATP_IN_VALUE_LOOP static typename Lane::Value of(typename Lane::Value a, typename Lane::Value b) {
    using Signed = typename Lane::Signed;
    return static_cast<Signed>(a) > static_cast<Signed>(b) ? a : b;
  }
};

template <class Lane, class Reduction>
ATP_IN_VALUE_LOOP void combine(std::uint8_t* __restrict sum, const std::uint8_t* __restrict in,
                               std::size_t bytes) {
  using Value = typename Lane::Value;
  for (std::size_t i = 0; i < bytes / sizeof(Value); ++i) {
    Value held;
    std::memcpy(&held, sum + sizeof(Value) * i, sizeof held);
    held = Reduction::template of<Lane>(held, Lane::read(in + sizeof(Value) * i));
    std::memcpy(sum + sizeof(Value) * i, &held, sizeof held);
  }
}

template <class Lane, class Reduction>
ATP_IN_VALUE_LOOP void combine_and_load(std::uint8_t* __restrict sum,
                                        const std::uint8_t* __restrict in,
                                        std::uint8_t* __restrict out, std::size_t bytes) {
  using Value = typename Lane::Value;
  for (std::size_t i = 0; i < bytes / sizeof(Value); ++i) {
    Value held;
    std::memcpy(&held, sum + sizeof(Value) * i, sizeof held);
    held = Reduction::template of<Lane>(held, Lane::read(in + sizeof(Value) * i));
    std::memcpy(sum + sizeof(Value) * i, &held, sizeof held);
    Lane::write(out + sizeof(Value) * i, held);
  }
}

template <class Lane>
ATP_IN_VALUE_LOOP void to_host(std::uint8_t* __restrict sum, const std::uint8_t* __restrict in,
                               std::size_t bytes) {
  using Value = typename Lane::Value;
  for (std::size_t i = 0; i < bytes / sizeof(Value); ++i) {
    const Value value = Lane::read(in + sizeof(Value) * i);
    std::memcpy(sum + sizeof(Value) * i, &value, sizeof value);
  }
}

template <class Lane>
ATP_IN_VALUE_LOOP void to_wire(const std::uint8_t* __restrict sum, std::uint8_t* __restrict out,
                               std::size_t bytes) {
  using Value = typename Lane::Value;
  for (std::size_t i = 0; i < bytes / sizeof(Value); ++i) {
    Value value;
    std::memcpy(&value, sum + sizeof(Value) * i, sizeof value);
    Lane::write(out + sizeof(Value) * i, value);
  }
}

constexpr bool is_int16(std::uint8_t kind) { return (kind & ATP_KIND_LANES) == ATP_KIND_INT16; }
constexpr bool is_max(std::uint8_t kind) { return (kind & ATP_KIND_REDUCTION) == ATP_KIND_MAX; }

}  // namespace

ATP_VALUE_LOOP void store_lanes(std::uint8_t kind, std::uint8_t* sum, const std::uint8_t* in,
                                std::size_t bytes) {
  if (is_int16(kind)) {
    to_host<Int16>(sum, in, bytes);
  } else {
    to_host<Int32Lane>(sum, in, bytes);
  }
}

ATP_VALUE_LOOP void combine_lanes(std::uint8_t kind, std::uint8_t* sum, const std::uint8_t* in,
                                  std::size_t bytes) {
  if (is_int16(kind)) {
    is_max(kind) ? combine<Int16, Max>(sum, in, bytes) : combine<Int16, Sum>(sum, in, bytes);
  } else {
    is_max(kind) ? combine<Int32Lane, Max>(sum, in, bytes)
                 : combine<Int32Lane, Sum>(sum, in, bytes);
  }
}

ATP_VALUE_LOOP void combine_and_load_lanes(std::uint8_t kind, std::uint8_t* sum,
                                           const std::uint8_t* in, std::uint8_t* out,
                                           std::size_t bytes) {
  if (is_int16(kind)) {
    is_max(kind) ? combine_and_load<Int16, Max>(sum, in, out, bytes)
                 : combine_and_load<Int16, Sum>(sum, in, out, bytes);
  } else {
    is_max(kind) ? combine_and_load<Int32Lane, Max>(sum, in, out, bytes)
                 : combine_and_load<Int32Lane, Sum>(sum, in, out, bytes);
  }
}

ATP_VALUE_LOOP void load_lanes(std::uint8_t kind, const std::uint8_t* sum, std::uint8_t* out,
                               std::size_t bytes) {
  if (is_int16(kind)) {
    to_wire<Int16>(sum, out, bytes);
  } else {
    to_wire<Int32Lane>(sum, out, bytes);
  }
}

}  // namespace atp
