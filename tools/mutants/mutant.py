"""Mutants, and how to plant them."""

import dataclasses
import hashlib


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule of docs/inside/protocol left out: `found`, unique in `file`, is replaced."""

    name: str  # a sentence
    file: str
    found: str
    planted: str


@dataclasses.dataclass(frozen=True)
class Mutant:
    """`identity` names it in results, in harmless.py and on the command line."""

    identity: str
    kind: str  # "semantic", or the operator's name
    file: str
    at: int  # the position of `found` in the file's text
    found: str
    planted: str

    def plant(self, text):
        if not text.startswith(self.found, self.at):
            raise PlaceNotFound(f"{self.identity}: its place in {self.file} has moved")
        return text[: self.at] + self.planted + text[self.at + len(self.found) :]

    def line(self, text):
        return text.count("\n", 0, self.at) + 1


class PlaceNotFound(Exception):
    """Names a mutant that has no place, or more than one, in the current sources."""


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def of_rule(rule, text):
    """The mutant of a rule in the file's text; raises PlaceNotFound."""
    count = text.count(rule.found)
    if count != 1:
        raise PlaceNotFound(
            f"“{rule.name}”: its text occurs {count} times in {rule.file}, expected once; "
            f"correct it in tools/mutants/semantic: {rule.found!r}"
        )
    return Mutant(
        rule.name, "semantic", rule.file, text.index(rule.found), rule.found, rule.planted
    )
