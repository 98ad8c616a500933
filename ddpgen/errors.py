"""The one exception that reaches a user, and how values are shown in messages."""

from collections.abc import Sequence

USER_MISTAKE = 2
FAILURE = 1
INTERRUPTED = 130
# Of Python's own reader of programs, which has no memory for what is nested too deeply.
NO_PROGRAM = (SyntaxError, ValueError, RecursionError, MemoryError)


class DdpgenError(Exception):
    """Something a user can act on; `str()` of it is the whole message.

    Attributes:
        option: name of the option, file or path concerned, or "".
        value: the offending value as given, or None.
        allowed: the values that would do; empty where a reason says more.
        remedy: what to do about it, or "".
        exit_code: 2 for a user's mistake, 1 for a failure of the environment.
    """

    def __init__(
        self,
        reason: str,
        *,
        option: str = "",
        value: object = None,
        allowed: Sequence[str] = (),
        remedy: str = "",
        exit_code: int = USER_MISTAKE,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.option = option
        self.value = value
        self.allowed = tuple(allowed)
        self.remedy = remedy
        self.exit_code = exit_code

    def __str__(self) -> str:
        subject = self.option if self.value is None else f"{self.option}={show(self.value)}"
        message = f"{subject}: {self.reason}" if subject else self.reason
        if self.allowed:
            message += f" (allowed: {', '.join(self.allowed)})"
        return f"{message}\n  {self.remedy}" if self.remedy else message


def show(value: object, limit: int = 80) -> str:
    """Write a value for a message: as on the command line, made harmless for a terminal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(show(item, limit) for item in value)
    text = str(value)
    text = text if len(text) <= limit else f"{text[:limit]}..."
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def nearest(word: str, known: Sequence[str]) -> str:
    """Return "did you mean X?" for the known word closest to `word`, or ""."""
    from difflib import get_close_matches

    folded = {name.casefold(): name for name in known}
    wanted = word.casefold().replace("-", "_")
    close = get_close_matches(wanted, folded, n=1, cutoff=0.6) or get_close_matches(
        word.casefold(), folded, n=1, cutoff=0.6
    )
    return f"did you mean {folded[close[0]]}?" if close else ""
