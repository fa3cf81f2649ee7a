#!/usr/bin/env python3
"""Checks that no two headers define a type of the same name in the same namespace.

Neither the compiler nor the linker reports such a pair, but their inline functions have the same
names, and a program that holds both types calls one type's functions for the other. A type that one
source needs belongs in its anonymous namespace, where it clashes with nothing.

Usage: tools/check_names.py [repository root]
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

FOLDERS = ("atp", "experiments", "explore", "python", "tests")
# clang-format keeps whatever is at namespace scope in the first column.
OPENED = re.compile(r"(?:inline )?namespace(?: ([\w:]+))? \{")
CLOSED = re.compile(r"\}  // namespace")
# Not a forward declaration, nor a member that is defined outside of its class.
TYPE = re.compile(r"(?:struct|class|union|enum class|enum)(?: alignas\(.*?\))? (\w+)(?![\w:;<])")


def types_of(text):
    """[(line, qualified name)] of the types at the scope of a namespace that has a name."""
    found, namespaces = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if opened := OPENED.match(line):
            namespaces.append(opened[1])
        elif CLOSED.match(line) and namespaces:
            namespaces.pop()
        elif (named := TYPE.match(line)) and not line.endswith(";") and all(namespaces):
            found.append((number, "::".join([*namespaces, named[1]])))
    return found


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    places = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.h")):
            for line, name in types_of(path.read_text()):
                places[name].append(f"{path.relative_to(root)}:{line}")
    shared = {name: where for name, where in places.items() if len(where) > 1}
    for name, where in sorted(shared.items()):
        print(f"{name} is defined at {' and at '.join(where)}; rename one", file=sys.stderr)
    return 1 if shared else 0


if __name__ == "__main__":
    sys.exit(main())
