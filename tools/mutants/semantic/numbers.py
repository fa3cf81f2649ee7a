"""Rules about the format and numbers (docs/inside/protocol §3 and §5, *Numbers*)."""

from tools.mutants.mutant import Rule

EXACT = "atp/wire/exact_sum.cc"
BLOCKS = "atp/wire/block_values.cc"
FIXED = "atp/wire/fixed_point.cc"
VIEW = "atp/wire/packet_view.cc"

RULES = [
    Rule(
        "magnitudes wrap instead of saturating",
        "atp/wire/packet.h",
        "return sum < a ? 0xffffffffU : sum;",
        "return sum & 0x7fffffffU;",
    ),
    Rule(
        "the sum of a block has one bit too few",
        "atp/wire/number_format.h",
        "return static_cast<int>(std::bit_width(world_size - 1));",
        "return static_cast<int>(std::bit_width(world_size - 1)) - 1;",
    ),
    Rule(
        "a block is shifted by one value",
        "atp/core/worker/block_layout.cc",
        "const std::size_t number = (value - begin) / kBlockValues;",
        "const std::size_t number = (value - begin + 1) / kBlockValues;",
    ),
    Rule(
        "a maximum is taken as a minimum",
        "atp/wire/lanes.cc",
        "return static_cast<Signed>(a) > static_cast<Signed>(b) ? a : b;",
        "return static_cast<Signed>(a) < static_cast<Signed>(b) ? a : b;",
    ),
    Rule(
        "a minimum is taken as a maximum",
        "atp/wire/plain_values.cc",
        "return reduction == Reduction::kMin ? -1 : 0;",
        "return 0;",
    ),
    Rule(
        "an exact sum loses its carry", EXACT, "addend = words[w] < addend ? 1 : 0;", "addend = 0;"
    ),
    Rule(
        "an exact sum loses its borrow",
        EXACT,
        "subtrahend = before < subtrahend ? 1 : 0;",
        "subtrahend = 0;",
    ),
    Rule(
        "ties are rounded up",
        EXACT,
        "if (half && (more || (bits & 1) != 0)) ++bits;",
        "if (half) ++bits;",
    ),
    Rule(
        "a denormal has the hidden bit",
        EXACT,
        "(exponent == 0 ? 0 : kHiddenBit);",
        "kHiddenBit;",
    ),
    Rule("an exact sum forgets NaN", EXACT, "if ((marks_ & kNanMark) != 0 || both)", "if (both)"),
    Rule(
        "a sum in float64 is used although it lost bits",
        EXACT,
        "found.lost[i] == 0 ?",
        "true ?",
    ),
    Rule(
        "bfloat16 is truncated instead of rounded",
        "atp/wire/element.h",
        "(bits + to_even) >> 16",
        "bits >> 16",
    ),
    Rule(
        "units are truncated instead of rounded",
        BLOCKS,
        "__builtin_rintf(value * first * second)",
        "__builtin_truncf(value * first * second)",
    ),
    Rule(
        "an average in blocks is not divided",
        BLOCKS,
        "load(i) / divisor);",
        "load(i));",
    ),
    Rule(
        "a value beyond the fixed scale is not reported",
        FIXED,
        "return {magnitude, out_of_range != 0};",
        "return {magnitude, false};",
    ),
    Rule(
        "the magnitude of a negative value is its bits",
        FIXED,
        "(integer ^ sign) - sign",
        "integer",
    ),
    Rule(
        "reserved bytes may be anything",
        VIEW,
        " || h.tenant == ATP_TENANT_INVALID) {",
        ") {",
    ),
    Rule(
        "a packet may be longer than its header says",
        VIEW,
        "  if (bytes.size() > expected && !carries_body(h)) return ParseError::kBadLength;\n",
        "",
    ),
    Rule(
        "Wmax may be any number",
        "atp/wire/join.cc",
        "std::has_single_bit(ack.wmax) && ",
        "",
    ),
    Rule(
        "a STATUS may be longer than it says",
        "atp/wire/status.cc",
        "if (body.size() != status.bytes(bitmap_words) + cause_bytes) return std::nullopt;",
        "if (body.size() < status.bytes(bitmap_words) + cause_bytes) return std::nullopt;",
    ),
    Rule(
        "ranks of two words count as one",
        "atp/base/rank_set.h",
        "more |= (word & (word - 1)) != 0 || (word != 0 && seen != 0);",
        "more |= (word & (word - 1)) != 0;",
    ),
    Rule(
        "ranks of a third word are not added",
        "atp/base/rank_set.h",
        "for (std::size_t w = 0; w < other.used_; ++w) words_[w] |= other.words_[w];",
        "for (std::size_t w = 0; w < other.used_ && w < 2; ++w) words_[w] |= other.words_[w];",
    ),
    Rule(
        "a packet is searched for special blocks only at its ends",
        "atp/core/worker/block_codec.cc",
        "return std::find(of_range.begin(), of_range.end(), kSpecialBlock) != of_range.end();",
        "return of_range.front() == kSpecialBlock || of_range.back() == kSpecialBlock;",
    ),
    Rule(
        "more than 64 ranks may sum values of 16 bits",
        VIEW,
        "atp_kind_known(h.kind) == 0 || is_too_wide || ",
        "atp_kind_known(h.kind) == 0 || ",
    ),
]
