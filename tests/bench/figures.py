"""From times to ratios, and what the goals say about them."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench import answering, commands, own_tests, saving

Device = dict[str, Any]  # one device's part of bench.json
RIVALS = ("accelerate", "lightning", "trainer")


@dataclass(frozen=True)
class Ratio:
    """Of two times that were measured side by side: middle, and the quartiles as its spread."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 2 if self.middle < 10 else 0
        spread = f"{self.low:.{digits}f}…{self.high:.{digits}f}"
        return f"{self.middle:.{digits}f} ({spread})"


def ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """Round by round, so that whatever slows the machine down for a while does so to both."""
    return spread([a / b for a, b in zip(over, under, strict=True)])


def spread(values: Sequence[float]) -> Ratio:
    """Median and quartiles."""
    if len(values) < 2:
        return Ratio(values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Ratio(middle, low, high)


def case(device: Device, name: str) -> Any:
    """A case by its name; None where it was not measured."""
    return next((case for case in device["cases"] if case["name"] == name), None)


def compared(case: Any) -> bool:
    """Whether it compares whole loops: other cases are about parts of one."""
    return "matmul" in case["times"]


def speed(case: Any, side: str, other: str) -> Ratio:
    """Throughput of a side over that of another one."""
    return ratio(case["times"][other]["block"], case["times"][side]["block"])


def utilisation(case: Any) -> float:
    """Share of the rate of large matrix products that the generated project's training reaches."""
    products = case["times"]["matmul"]
    rate = products["flops of a burst"][0] / statistics.median(products["products"])
    step = statistics.median(case["times"]["generated"]["block"]) / case["block"]
    return float(products["flops"][0] / step / rate)


def accumulation(case: Any) -> Ratio:
    """A step of k micro-batches over k - 1 micro-steps without reduction and one whole step."""
    ours, step, micro = (case["times"][side]["block"] for side in ("generated", "plain", "micro"))
    predicted = [one + (case["accumulate"] - 1) * m for one, m in zip(step, micro, strict=True)]
    return ratio(ours, predicted)


def search(case: Any) -> Ratio:
    """Processor time of a step that looks for parameters without a gradient, over one without."""
    return ratio(case["times"]["searched"]["processor"], case["times"]["plain"]["processor"])


@dataclass(frozen=True)
class Goal:
    """A promise, the figure that it is about, and whether it holds."""

    words: str
    figure: str
    met: bool | None  # None: not measured in this run


def at_least(words: str, found: Ratio | float | None, bound: float, why: str = "") -> Goal:
    """A goal for a figure that shall be high."""
    if found is None:
        return Goal(words, why, None)
    return Goal(words, shown(found), (found.middle if isinstance(found, Ratio) else found) >= bound)


def at_most(words: str, found: Ratio | float | None, bound: float, why: str = "") -> Goal:
    """A goal for a figure that shall be low."""
    if found is None:
        return Goal(words, why, None)
    return Goal(words, shown(found), (found.middle if isinstance(found, Ratio) else found) <= bound)


def shown(figure: Ratio | float) -> str:
    """As text."""
    return str(figure) if isinstance(figure, Ratio) else f"{figure:.2f}"


def goals(device: Device) -> list[Goal]:
    """All goals, with what this device's run says about them."""
    found = []
    for one in device["cases"]:
        if compared(one):
            words = f"{one['name']}: generated ≥ 0.99 × plain loop"
            goal = at_least(words, speed(one, "generated", "plain"), 0.99)
            if "again" in one["times"]:
                chance = f"; the plain loop, again: {speed(one, 'again', 'plain')}"
                goal = replace(goal, figure=goal.figure + chance)
            found.append(goal)
    small = case(device, "mlp")
    rivals = [side for side in RIVALS if small and side in small["times"]]
    words = "mlp: generated ≥ 1.05 × the fastest library"
    best = min((speed(small, "generated", rival) for rival in rivals), key=_middle, default=None)
    why = "no library is installed" if small else "not measured"
    found.append(at_least(words, best, 1.05, why))
    fed = [speed(one, "generated", "fixed") for one in device["cases"] if "fixed" in one["times"]]
    words = "data loading hidden: ≥ 0.98 × the speed with one batch again and again"
    found.append(at_least(words, min(fed, key=_middle, default=None), 0.98, "a goal for GPUs"))
    compiled = case(device, "gpt, compiled")
    words = "GPT-2 124 M, compiled: utilisation ≥ 0.50"
    used = compiled and utilisation(compiled)
    found.append(at_least(words, used, 0.50, "a goal for GPUs"))
    reads = [max(one["times"]["generated"]["reads"]) for one in device["cases"]]
    words = "waits of the host per step, between log points: 0"
    found.append(at_most(words, max(reads, default=None), 0, "not measured"))
    several = case(device, "accumulation")
    words = "a step of 8 micro-batches ≤ 1.05 × (7 micro-steps + 1 step)"
    found.append(at_most(words, several and accumulation(several), 1.05, "not measured"))
    return found + _goals_beside_training(device)


def _goals_beside_training(device: Device) -> list[Goal]:
    """About the generator, its page, large saves and projects' own tests."""
    found = []
    times = device["commands"]
    for words, over, under, bound in (
        (
            "`ddpgen --help` ≤ 1.5 × `python -c 'import argparse'`",
            commands.HELP,
            commands.BARE,
            1.5,
        ),
        ("`ddpgen new --defaults` ≤ 1.0 × `copier copy`", commands.NEW, commands.COPY, 1.0),
    ):
        measured = ratio(times[over], times[under]) if times else None
        found.append(at_most(words, measured, bound, device["no_commands"]))
    answered = device.get(answering.NAME, {})
    for words, name, bound in (
        ("an answer's effect on the page of `ddpgen web` ≤ 0.1 s", answering.HERE, 0.1),
        ("an answer's effect on the static page ≤ 0.1 s", answering.ANYWHERE, 0.1),
        ("first file of the static page ≤ 5 s", answering.FIRST, 5.0),
        ("first file of the static page, answers in its address ≤ 5 s", answering.FIRST_WITH, 5.0),
    ):
        middle = statistics.median(answered[name]) if name in answered else None
        why = device.get("no_answers", "") or "not measured"
        found.append(at_most(words, middle, bound, why))
    saves = device.get(saving.NAME)
    background = saving.share(saves, saving.BACKGROUND, saving.BLOCKING) if saves else None
    blocking = saving.share(saves, saving.BLOCKING, saving.PLAIN) if saves else None
    words = "a background save holds up ≤ 0.1 × a blocking one"
    found.append(at_most(words, background, 0.1, "not measured"))
    words = "a blocking save ≤ 1.3 × torch.save and fsync"
    found.append(at_most(words, blocking, 1.3, "not measured"))
    own = {name: max(values) for name, values in device["own tests"].items()}
    words = "own tests of the default project ≤ 30 s"
    found.append(at_most(words, own.get(own_tests.DEFAULT), 30, "not measured"))
    words = "own tests of the largest project of each model ≤ 90 s"
    found.append(at_most(words, max(own.values(), default=None), 90, "not measured"))
    return found


def _middle(found: Ratio) -> float:
    return found.middle
