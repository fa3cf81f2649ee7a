"""How the demos end."""

import sys


def enter(main):
    """Ends the process with main()'s exit code, after Ctrl-C with 130 and without a stack."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ndemo: stopped", file=sys.stderr)
        sys.exit(130)
