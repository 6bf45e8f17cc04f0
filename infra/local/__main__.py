"""The command line of the supervisor: python -m infra.local up|down|status|env|run|restart-part|with-services."""

import argparse
import sys
from collections.abc import Sequence

from infra.local import commands
from infra.local.folder import Folder
from infra.local.refusals import Refusal


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m infra.local", description="Run the farm on this machine.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, text in {"up": "start the farm and wait until it is ready", "run": "supervise in the foreground"}.items():
        command = verbs.add_parser(verb, help=text)
        command.add_argument("--only", choices=["services"], help="database and broker alone")
        if verb == "run":
            command.add_argument("--throwaway", action="store_true", help="faster: data need not survive a power cut")
    verbs.add_parser("down", help="stop everything")
    verbs.add_parser("status", help="show the parts")
    verbs.add_parser("env", help="print the variables of the farm's processes")
    verbs.add_parser("restart-part", help="end one part and see it start again").add_argument("part")
    command = verbs.add_parser("with-services", help="run a command with a database and a broker of its own")
    command.add_argument("--durable", action="store_true", help="let them wait for the disk as they do in `up`")
    command.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    asked = parse(arguments)
    folder = Folder.from_environment()
    match asked.verb:
        case "up":
            return commands.up(folder, only_services=asked.only == "services")
        case "run":
            from infra.local import supervisor  # here: the other verbs need no database driver and answer sooner

            return supervisor.run(folder, only_services=asked.only == "services", throwaway=asked.throwaway)
        case "down":
            return commands.down(folder)
        case "status":
            return commands.status(folder)
        case "env":
            return commands.env(folder)
        case "restart-part":
            return commands.restart_part(folder, asked.part)
    return commands.with_services(asked.command[asked.command[:1] == ["--"] :], durable=asked.durable)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refusal as refusal:
        sys.exit(str(refusal).strip())
    except KeyboardInterrupt:
        sys.exit(130)
