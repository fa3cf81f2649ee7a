"""Mutants that no test can kill, by identity, each with the reason why it is harmless."""

REASONS = {
    "atp/wire/block_values.cc: > to >=: if (std::isnan(value) || value > 0) "
    "classes += kPlusInfinity;": "it only sees values that are not finite, and 0 is finite",
    "atp/wire/packet_view.h: < to <=: if (bytes.size() < ATP_HEADER_BYTES || "
    "bytes[ATP_AT_TYPE] > ATP_PARAMETER) return;": "a packet has a bitmap after its header, so "
    "one that ends there is dropped in any case",
    "atp/wire/element.h: - to +: std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + "
    "0.5F) - 0x3f000000U;": "only the lower 16 bits of the difference are kept, and those of "
    "0x3f000000 are zero",
}
