"""One module per command: NAME, HELP, arguments(parser), run(args) -> exit code."""
from . import compare, devices, diff, doctor, explore, guide, ops, profile, script

COMMANDS = (compare, guide, explore, ops, devices, script, profile, diff, doctor)
