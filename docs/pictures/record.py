#!/usr/bin/env python3
"""Makes a picture (SVG) of commands as they run in a terminal.

    docs/pictures/record.py TITLE WIDTH < COMMANDS > PICTURE.svg

Each line of standard input is one command for bash, run in a terminal of its own, and shown with what it printed. A line
that begins with `%` is run and not shown: it waits for something. What follows three spaces and a `#` is a remark.
Needs `rich` (Python).
"""
import fcntl, io, os, pty, re, struct, subprocess, sys, termios

from rich.console import Console
from rich.text import Text

title, width = sys.argv[1], int(sys.argv[2])
console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor", highlight=False)


def run(command):
    """What the command printed on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(["bash", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    printed = b""
    try:
        while part := os.read(ours, 65536):
            printed += part
    except OSError:  # the other side of a terminal that is closed
        pass
    process.wait()
    os.close(ours)
    return printed.decode().replace("\r\n", "\n")


for line in sys.stdin.read().splitlines():
    if line.startswith("%"):
        run(line[1:])
        continue
    command, _, remark = line.partition("   # ")
    shown = Text.assemble(("$ ", "bold green"), (command, "bold"), (f"   # {remark}" if remark else "", "bright_black"))
    console.print(shown)
    if printed := run(command).rstrip("\n"):
        console.print(Text.from_ansi(printed))
# A picture loads nothing from elsewhere.
sys.stdout.write(re.sub(r"\s*@font-face \{.*?\}", "", console.export_svg(title=title), flags=re.DOTALL))
