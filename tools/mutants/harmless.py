"""Mutants that no test can kill, by identity, each with the reason why it harms nothing."""

REASONS = {
    "integers go unanswered in float mode": "the server asks for floats by its own timer as well",
}
