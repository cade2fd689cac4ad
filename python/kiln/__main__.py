# SPDX-License-Identifier: MIT
"""`python -m kiln`, and the script `kiln` of an installed wheel: the command."""
import os
import sys

from ._command import find_command
from ._library import Error


def main() -> None:
    try:
        command = find_command()
    except Error as error:
        sys.exit("kiln: %s" % error)
    os.execv(command, [command] + sys.argv[1:])


if __name__ == "__main__":
    main()
