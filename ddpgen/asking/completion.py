"""Completion for shells: one script for bash and zsh, made from the commands and the questions."""

import argparse

from ddpgen.asking import questions

_SCRIPT = """\
# Completion of ddpgen for {shell}. To use it: eval "$(ddpgen completion {shell})"
{begin}_ddpgen() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command=${{COMP_WORDS[1]}} key="" words="" space=1
    # Bash takes `key=value` for three words.
    if [[ $word == = ]]; then
        key=$before word=""
    elif [[ $before == = ]]; then
        key=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    if [[ -n $key ]]; then
        case $key in
{values}
        esac
    elif [[ $COMP_CWORD == 1 ]]; then
        words="{commands}"
    elif [[ $before == --data || ( $command == set && $word != -* ) ]]; then
        words="{keys}" space=
    elif [[ $word == -* ]]; then
        case $command in
{flags}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [[ -z $words ]]; then COMPREPLY=($(compgen -f -- "$word")); fi
    if [[ -z $space ]]; then compopt -o nospace 2>/dev/null; fi
}}
complete -F _ddpgen ddpgen
"""


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return what a shell has to evaluate.

    Args:
        shell: bash or zsh.
        parser: the command line.
    """
    asked = [q for q in questions.load().questions.values() if not q.computed]
    commands = {
        name: [option for action in sub._actions for option in action.option_strings]
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, sub in action.choices.items()
    }
    values = {
        question.name: ["true", "false"] if question.type == "bool" else question.values
        for question in asked
    }
    return _SCRIPT.format(
        shell=shell,
        begin="autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "",
        commands=" ".join(commands),
        keys=" ".join(f"{name}=" for name in values),
        values=_cases(values),
        flags=_cases(commands),
    )


def _cases(table: dict[str, list[str]]) -> str:
    lines = [f'            {name}) words="{" ".join(words)}";;' for name, words in table.items()]
    return "\n".join(lines)
