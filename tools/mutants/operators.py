"""Finds the operators, conditions, statements and constants of the core that can be mutated.

The rules are textual. clang-format puts spaces around every binary operator but not around those of
templates and references, so text without comments, literals and directives is enough.
"""

import re

from tools.mutants.mutant import Mutant, digest

FOLDERS = ("atp/base", "atp/wire", "atp/core")
# Not mutated: tests and their helpers; counter names and texts for people, which tests of other
# folders check; random numbers, which have no right value.
LEFT_OUT = re.compile(
    r"_test\.|_bench\.|_harness\.h$|/testing_|/conformance/|\.bpf\.c$|_counter\.|"
    r"base/(check|text|counters|random|result)\.|wire/cause\."
)

# The sample has about one in this many sites, chosen by the hash of their identity, so that an edit
# elsewhere does not change it.
ONE_IN = 36

# name, pattern (its group is replaced), replacement
SWAPS = [
    ("< to <=", r" (<) ", "<="),
    ("<= to <", r" (<=)(?=\s)", "<"),
    ("> to >=", r" (>) ", ">="),
    (">= to >", r" (>=)(?=\s)", ">"),
    ("== to !=", r" (==)(?=\s)", "!="),
    ("!= to ==", r" (!=)(?=\s)", "=="),
    ("&& to ||", r" (&&)(?=\s)", "||"),
    ("|| to &&", r" (\|\|)(?=\s)", "&&"),
    ("+ to -", r" (\+)(?=\s)", "-"),
    ("- to +", r" (-)(?=\s)", "+"),
    ("| to &", r" (\|)(?=\s)", "&"),
    ("& to |", r" (&)(?=\s)", "|"),
    ("+= to -=", r" (\+=)(?=\s)", "-="),
    ("-= to +=", r" (-=)(?=\s)", "+="),
    ("|= to &=", r" (\|=)(?=\s)", "&="),
    ("++ to --", r"(?<![\w\])])(\+\+)(?=\w)", "--"),
    ("true to false", r"(?<=return )(true)(?=;)", "false"),
    ("false to true", r"(?<=return )(false)(?=;)", "true"),
]
CONDITION = re.compile(r"\bif \((?!const |constexpr )")
# A complete statement on its own line: a call, an assignment or an increment. The text before must
# have ended, or this would be the rest of a longer statement.
STATEMENT = re.compile(
    r"(?<=[;{}])\n +((?!return\b|break\b|continue\b|using\b|goto\b|delete\b|throw\b|const\b|case\b)"
    r"(?:(?:\+\+|--)?[\w.\->\[\]:]+(?:\+\+|--)?;|[\w.\->\[\]:]+(?: [-+*/|&^]?= .*|\(.*\));))(?=\n)"
)
DECLARATION = re.compile(r"^(?:[\w:]+(?:<.*>)? )+[\w\[\]]+(?:;| =|\()")
CONSTANT = re.compile(r"(?<=[ (])([1-9]\d*)(?=[ ;),U])")

LITERALS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|(?<!\w)'(?:\\.|[^'\\])'", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
CHECKS = re.compile(r"\b(?:static_assert|ATP_CHECK)\([^;]*;")
NAMES = re.compile(r"^\S*string_view to_string\(.*?^}", re.MULTILINE | re.DOTALL)
TABLES = re.compile(r"^(?:inline constexpr BodyField .*|  \w+ = \d+,.*)$", re.MULTILINE)


def is_mutated(file):
    return file.startswith(FOLDERS) and file.endswith((".h", ".cc")) and not LEFT_OUT.search(file)


def code_of(text):
    """The text with everything blanked that no rule may touch; positions stay the same."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    for pattern in (LITERALS, DIRECTIVE, CHECKS, NAMES, TABLES):
        text = pattern.sub(blank, text)
    return text


def matching(code, at):
    """The position of the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i
    raise ValueError(f"unbalanced parenthesis at {at}")


def changes(text):
    """(operator, where, found, planted) for each site of a file, in order."""
    code = code_of(text)
    found = []
    for name, pattern, planted in SWAPS:
        found += [(m.start(1), name, m[1], planted) for m in re.finditer(pattern, code)]
    for m in CONDITION.finditer(code):
        opens = m.end() - 1
        condition = text[opens + 1 : matching(code, opens)]
        if ";" not in condition and not re.match(r"[\w:]+[&*]* \w+ = ", condition):
            found.append((opens + 1, "condition negated", condition, f"!({condition})"))
    for m in STATEMENT.finditer(code):
        if not DECLARATION.match(m[1]):
            found.append((m.start(1), "statement left out", m[1], ";"))
    for m in CONSTANT.finditer(code):
        found.append((m.start(1), "constant plus one", m[1], str(int(m[1]) + 1)))
    for at, name, before, after in sorted(found):
        yield name, at, before, after


def mutants(file, text):
    """All mutants of a file, identified by file, operator, line, and number among equal ones."""
    seen = {}
    for name, at, before, after in changes(text):
        start = text.rfind("\n", 0, at) + 1
        line = text[start : text.find("\n", at)].strip()
        key = (name, line)
        seen[key] = seen.get(key, 0) + 1
        nth = f" #{seen[key]}" if seen[key] > 1 else ""
        yield Mutant(f"{file}: {name}: {line}{nth}", name, file, at, before, after)


def in_sample(mutant):
    return int(digest(mutant.identity)[:8], 16) % ONE_IN == 0
