"""The outcome of each layer for each mutant: stored as JSON lines, and printed as a table."""

import json

from tools.mutants.layers import NAMES, Outcome
from tools.mutants.mutant import digest


class Results:
    """Every outcome is written immediately, so an interrupted run can resume.

    A kill stays valid until the mutant's file changes; a survival, until one of the tests that
    could have killed it changes.
    """

    def __init__(self, path, text_of, tests_digest):
        """tests_digest(layer, file): a digest of the tests that run."""
        self.path, self.text_of, self.tests_digest = path, text_of, tests_digest
        self.rows = {}
        if path.is_file():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["identity"], row["layer"]] = row

    def signature(self, mutant):
        return digest("\0".join((self.text_of(mutant.file), str(mutant.at), mutant.planted)))

    def find(self, mutant, layer, **terms):
        row = self.rows.get((mutant.identity, layer))
        if row is None or row["signature"] != self.signature(mutant):
            return None
        tests = self.tests_digest(layer, mutant.file)
        stale = row["tests"] != tests or row["terms"] != terms
        if row["result"] == "held" and stale:
            return None
        return Outcome(row["result"], row["by"], row["seconds"])

    def add(self, mutant, layer, outcome, **terms):
        row = {
            "identity": mutant.identity,
            "layer": layer,
            "signature": self.signature(mutant),
            "tests": self.tests_digest(layer, mutant.file),
            "terms": terms,
            **outcome.row(),
        }
        self.rows[mutant.identity, layer] = row
        with open(self.path, "a") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


class Report:
    """outcomes: {mutant: {layer: Outcome}}; reasons: {identity: why it is harmless}."""

    def __init__(self, outcomes, reasons, line_of):
        self.outcomes, self.reasons, self.line_of = outcomes, reasons, line_of

    def broken(self):
        return [m for m, said in self.outcomes.items() if has(said, "broken")]

    def counted(self):
        return [m for m, said in self.outcomes.items() if not has(said, "broken") and said]

    def killed(self, layer=None):
        return [
            m
            for m in self.counted()
            if any(o.result == "killed" for name, o in self.outcomes[m].items()
                   if layer in (None, name))
        ]  # fmt: skip

    def survivors(self):
        killed = set(self.killed())
        return [m for m in self.counted() if m not in killed]

    def unexplained(self):
        return [m for m in self.survivors() if m.identity not in self.reasons]

    def table(self):
        lines = ["| mutant | where | " + " | ".join(NAMES) + " |", "|---" * (2 + len(NAMES)) + "|"]
        for mutant in sorted(self.counted(), key=lambda m: (m.kind != "semantic", m.identity)):
            said = self.outcomes[mutant]
            cells = [told(said.get(name)) for name in NAMES]
            name = mutant.identity.replace("|", "\\|")
            where = f"{mutant.file}:{self.line_of(mutant)}"
            lines.append(f"| {name} | {where} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def totals(self):
        counted, survivors = self.counted(), self.survivors()
        lines = [f"{len(counted)} mutants; {len(self.broken())} more do not compile"]
        for kind in ("semantic", "operator"):
            of_kind = [m for m in counted if (m.kind == "semantic") == (kind == "semantic")]
            for layer in NAMES:
                asked = [m for m in of_kind if layer in self.outcomes[m]]
                killed = [m for m in asked if self.outcomes[m][layer].result == "killed"]
                if asked:
                    lines.append(f"{kind}, {layer}: {len(killed)} of {len(asked)} killed")
            killed = [m for m in of_kind if m not in survivors]
            lines.append(f"{kind}, any layer: {len(killed)} of {len(of_kind)} killed")
        harmless = [m for m in survivors if m.identity in self.reasons]
        harmful = len(counted) - len(harmless)
        killed = len(counted) - len(survivors)
        if harmful:
            lines.append(
                f"score: {100 * killed / harmful:.1f} % ({killed} of {harmful}; "
                f"{len(harmless)} harmless ones are not counted)"
            )
        seconds = [sum(o.seconds for o in self.outcomes[m].values()) for m in counted]
        if seconds:
            lines.append(f"{sum(seconds) / len(seconds):.1f} s per mutant")
        return "\n".join(lines)

    def told_survivors(self):
        lines = []
        for mutant in self.survivors():
            why = self.reasons.get(mutant.identity, "UNEXPLAINED")
            lines.append(f"{mutant.file}:{self.line_of(mutant)}: {mutant.identity}\n    {why}")
        return "\n".join(lines)


def has(said, result):
    return any(outcome.result == result for outcome in said.values())


def told(outcome):
    if outcome is None:
        return "–"
    by = outcome.by.replace("|", "\\|")
    return f"killed: {by}" if outcome.result == "killed" else "held"
