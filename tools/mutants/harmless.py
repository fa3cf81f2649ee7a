"""Mutants that no test can kill, by identity, each with the reason why it harms nothing."""

REASONS = {
    "atp/wire/block_values.cc: > to >=: if (std::isnan(value) || value > 0) "
    "classes += kPlusInfinity;": "only what is not finite is asked there, and 0 is finite",
    "atp/wire/packet_view.h: < to <=: if (bytes.size() < ATP_HEADER_BYTES || "
    "bytes[ATP_AT_TYPE] > ATP_PARAMETER) return;": "a packet has a bitmap behind its header, so "
    "what ends there is dropped, marked or not",
}
