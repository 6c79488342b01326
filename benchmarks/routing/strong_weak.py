"""The default policy between a strong and a weak model on 57 families, and its adaptation to a change.

Each stream has families of different sizes and success rates. After the last task of the stationary part, the
strong model's rates fall in all families, and the stream goes on. Rewards are compared by their expectations, so
that the luck of single outcomes does not count.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.routing.regret import decision_of
from upturn.arbiter import Candidate, HierarchicalThompson, RoutingOutcome
from upturn.records import JsonValue, Result, Task

Array = NDArray[np.float64]

FAMILIES = 57
TASKS = 14_000
END = 4_000
"""The last tasks of the stationary part, which count as its end."""
FALL = 3.0
"""Log-odds by which the strong model's rates fall: .80 becomes .17."""
ADAPTATION = 100
"""Tasks after the change until the policy must have adapted."""
MAX_LOSS = 0.002
"""Bar of the loss to always-strong at the end, in reward per task."""
MIN_SHARE = 0.9
"""Bar of the weak model's share from 100 to 300 tasks after the change, where it is better in all families."""
STRONG, WEAK = 0, 1


@dataclass(frozen=True, slots=True)
class World:
    """The success rates by family, (families, 2), and the families' shares of the tasks."""

    rates: Array
    sizes: Array

    def after_change(self) -> Array:
        """Returns the rates with the strong model's fallen."""
        rates = self.rates.copy()
        odds = np.log(rates[:, STRONG] / (1 - rates[:, STRONG])) - FALL
        rates[:, STRONG] = 1 / (1 + np.exp(-odds))
        return rates


def make_world(seed: int) -> World:
    """Returns a world with mean rates of about .80 and .68; in a few families the weak model is better."""
    rng = np.random.default_rng([57, seed])
    strong = rng.normal(1.5, 0.6, FAMILIES)
    odds = np.stack([strong, strong - rng.normal(0.65, 0.35, FAMILIES)], axis=1)
    return World(1 / (1 + np.exp(-odds)), rng.dirichlet(np.full(FAMILIES, 2.0)))


def route(world: World, seed: int, tasks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the chosen models and the families of a stream with ``3 · ADAPTATION`` tasks after the change."""
    rng = np.random.default_rng([58, seed])
    policy = HierarchicalThompson()
    candidates = [Candidate(f"a{model}", f"a{model}@1") for model in (STRONG, WEAK)]
    count = tasks + 3 * ADAPTATION
    families = rng.choice(FAMILIES, count, p=world.sizes)
    draws = rng.random((count, 2))
    chosen, fallen = np.empty(count, dtype=np.int64), world.after_change()
    for index, family in enumerate(families):
        task = Task(id=f"t{index}", instruction="", family=f"f{family}", environment="call")
        probability = policy.probabilities(task, candidates)[STRONG]
        model = chosen[index] = STRONG if draws[index, 0] < probability else WEAK
        rates = world.rates if index < tasks else fallen
        reward = float(draws[index, 1] < rates[family, model])
        decision = decision_of(task, int(model), 0.5, ())
        policy.learn(decision, RoutingOutcome(decision.id, reward))
    return chosen, families


def measure_strong_weak(
    *, streams: int = 8, tasks: int = TASKS, on_done: Callable[[], None] = lambda: None
) -> tuple[list[Result], dict[str, JsonValue]]:
    """Returns the losses to always-strong in reward per task, the adaptation, and the first stream's families."""
    columns: dict[str, list[float]] = {name: [] for name in ("end", "all", "best_by_family", "weak_after_change")}
    by_family: dict[str, JsonValue] = {}
    end = min(END, tasks // 2)
    for seed in range(streams):
        world = make_world(seed)
        chosen, families = route(world, seed, tasks)
        expected = world.rates[families[:tasks]]
        loss = expected[:, STRONG] - expected[np.arange(tasks), chosen[:tasks]]
        columns["end"].append(float(loss[-end:].mean()))
        columns["all"].append(float(loss.mean()))
        columns["best_by_family"].append(float((expected[:, STRONG] - expected.max(axis=1)).mean()))
        columns["weak_after_change"].append(float((chosen[tasks + ADAPTATION :] == WEAK).mean()))
        by_family = by_family or _by_family(world, chosen[:tasks], families[:tasks])
        on_done()
    end_result = _result("strong_weak_loss_at_the_end", columns["end"], f"<= {MAX_LOSS:g}")
    share = _result("strong_weak_weak_share_after_change", columns["weak_after_change"], f">= {MIN_SHARE:g}")
    return [
        end_result,
        _result("strong_weak_loss_over_all", columns["all"]),
        _result("strong_weak_loss_of_best_by_family", columns["best_by_family"]),
        share,
    ], by_family


def _by_family(world: World, chosen: NDArray[np.int64], families: NDArray[np.int64]) -> dict[str, JsonValue]:
    rows: dict[str, JsonValue] = {}
    for family in np.unique(families):
        choices = chosen[families == family]
        strong, weak = world.rates[family].tolist()
        share = float((choices == STRONG).mean())
        learned = share * strong + (1 - share) * weak
        rows[f"f{family}"] = {
            "tasks": float(len(choices)),
            "strong": strong,
            "weak": weak,
            "thompson": learned,
            "strong_share": share,
        }
    return rows


def _result(name: str, values: list[float], bar: str | None = None) -> Result:
    """Returns the mean with its 95 % normal interval over the streams; the bar is on the mean."""
    mean = float(np.mean(values))
    half = 1.96 * float(np.std(values, ddof=1)) / len(values) ** 0.5
    holds = None
    if bar is not None:
        limit = float(bar.split()[1])
        holds = mean <= limit if bar.startswith("<=") else mean >= limit
    return Result(
        name, mean, "reward" if "loss" in name else "share", mean - half, mean + half, len(values), bar, holds
    )
