"""Mutants that no test can kill, by identity, each with the reason why it harms nothing."""

REASONS = {
    "atp/wire/block_values.cc: > to >=: if (std::isnan(value) || value > 0) "
    "classes += kPlusInfinity;": "only what is not finite is asked there, and 0 is finite",
}
