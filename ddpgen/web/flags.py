"""The flags of `ddpgen web`."""

import argparse


def add(web: argparse.ArgumentParser) -> None:
    """Add them to the parser of the command."""
    web.description = (
        "Open a page in the browser: choose, see what each choice changes in the files, take the "
        "project away. Only this machine can reach the page; Ctrl-C ends it."
    )
    web.add_argument("--port", type=int, default=0, metavar="N", help="(default: a free one)")
    web.add_argument("--no-browser", action="store_true", help="only print the address")
