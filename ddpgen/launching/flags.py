"""The flags of `ddpgen launch`: some are the command's own, others answer questions."""

import argparse

from ddpgen.asking import questions

EXAMPLES = """\
examples:
  ddpgen launch slurm --nodes 8 --gpus-per-node 4      adds launch_slurm/
  ddpgen launch slurm --nodes 64 --name big            adds launch_big/ beside it
  ddpgen launch --site perlmutter --account m1234      adds launch_perlmutter/
  ddpgen launch slurm --nodes 16                       changes launch_slurm/; your edits stay
  ddpgen launch kubernetes --nodes 2 --stdout          prints the manifest, writes nothing
  ddpgen launch --list                                 what there is

Nothing outside the set's own folder changes, but for its file of answers.
Any other option of where it runs: --data KEY=VALUE (ddpgen options lists them).
"""


def add_answers(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each question that copier.yml gives one."""
    names = []
    for question in questions.load().questions.values():
        if question.meaning.flag:
            names.append(question.name)
            parser.add_argument(
                f"--{question.name.replace('_', '-')}",
                dest=question.name,
                metavar=question.name.split("_")[0].upper(),
                help=question.help[0].lower() + question.help[1:],
            )
    parser.set_defaults(answered_by_flags=names)


def add_actions(site: argparse.ArgumentParser) -> None:
    """Add what `ddpgen site` can do."""
    site.description = (
        "Sites hold the answers that belong to a cluster, for --site of `ddpgen new` "
        "and `ddpgen launch`. Yours are TOML files in your config folder; some are built in."
    )
    actions = site.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    for action, purpose in (
        ("list", "all sites"),
        ("show", "the file of one, with its sources"),
        ("new", "make one from what this machine tells about itself"),
        ("check", "say what does not fit the machine this runs on; exit code 1 if something"),
    ):
        parser = actions.add_parser(action, help=purpose, allow_abbrev=False)
        if action != "list":
            parser.add_argument("name", metavar="NAME", help="the site")
