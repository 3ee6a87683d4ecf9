"""Commands for authors, run by make: check, notebooks, new."""

import argparse
import sys
from pathlib import Path

from aiinfra.authoring import chapter, notebooks, tree


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m aiinfra.authoring", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="stale notebooks, missing parts of chapters, numbers by status")
    generate = commands.add_parser("notebooks", help="make labs and solutions from solutions/*.py")
    generate.add_argument("--force", action="store_true", help="run every solution again")
    new = commands.add_parser("new", help="start a chapter from the template")
    new.add_argument("stem", help="its name in every folder, such as kv_cache")
    options = parser.parse_args(arguments)
    root = Path.cwd()
    try:
        if options.command == "check":
            return tree.report(root)
        if options.command == "notebooks":
            notebooks.write(root, force=options.force)
        else:
            chapter.create(root, options.stem)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
