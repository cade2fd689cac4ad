# SPDX-License-Identifier: MIT
"""`python -m kiln`, and the script `kiln` of an installed wheel: the command, which is in the package or in the source tree."""
import os
import sys


def find_command() -> str:
    """The command's file; beside the library that $KILN_LIBRARY names, if it names one."""
    package = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(package, "native", "bin", "kiln"), os.path.join(package, "..", "..", "build", "kiln")]
    if os.environ.get("KILN_LIBRARY"):
        places.insert(0, os.path.join(os.path.dirname(os.environ["KILN_LIBRARY"]), "kiln"))
    for place in places:
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return os.path.abspath(place)
    sys.exit("kiln: the command is not there: install the wheel, or build the source tree with 'make'")


def main() -> None:
    command = find_command()
    os.execv(command, [command] + sys.argv[1:])


if __name__ == "__main__":
    main()
