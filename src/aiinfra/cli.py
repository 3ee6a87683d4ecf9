"""The command line, `aiinfra SUBCOMMAND`; the module of a subcommand is imported only when it is asked for."""

import argparse
import importlib
import sys

# name -> (module with add_arguments(parser) and main(options) -> exit status, one line of help)
COMMANDS = {
    "grade": ("aiinfra.grading.command", "grade a folder or zip of lab notebooks"),
    "measure": ("aiinfra.measure.command", "measure the rates of this machine"),
    "release": ("aiinfra.grading.release", "write what learners get of a lab"),
}


def main(arguments=None):
    """Run the command line and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="aiinfra", description="Tools of the course.")
    subparsers = parser.add_subparsers(dest="command", metavar="SUBCOMMAND", required=True)
    for name, (module, help_line) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_line, description=help_line[0].upper() + help_line[1:] + ".")
        if arguments[:1] == [name]:
            command = importlib.import_module(module)
            command.add_arguments(subparser)
    options = parser.parse_args(arguments)
    return command.main(options)


if __name__ == "__main__":
    sys.exit(main())
