"""Transitions: what an agent had read and done, and what its environment answered. No torch here.

They come from any trajectory with recorded tokens, of successes and failures, agents and people alike: the world
answers all of them the same way.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from upturn.errors import ModelError, TrainingError
from upturn.models import ObservationWriter
from upturn.records import Trajectory, record
from upturn.training.row import FloatArray, TrainingRow

LeftOut = Literal["unwritten", "foreign", "broken", "framed", "empty", "too_long", "repeated"]
"""``unwritten``: no tokens were recorded for the turn. ``foreign``: what follows the action was not recorded by
this renderer. ``broken``: the environment broke and answered nothing. ``framed``: the renderer puts other tokens
around this observation than around most, as that of ``nano`` does around errors. ``empty``: it has no text, so
there is nothing to predict. ``too_long``: no room. ``repeated``: the same answer after the same tokens is there."""


@record
class Transition:
    """One action in its history, and the next observation."""

    id: str
    """Trajectory and turn."""
    task_id: str
    tool: str
    """``target.operation``; empty = what was written could not be read as an action."""
    prompt_ids: tuple[int, ...]
    """The recorded tokens up to and including the action, and the beginning of an observation."""
    written_ids: tuple[int, ...]
    """The observation as a model would write it, stop token included."""
    text: str
    """What ``written_ids`` say: the observation as agents read it."""


class Transitions(NamedTuple):
    """What a number of trajectories hold."""

    found: tuple[Transition, ...]
    """In the order of trajectories and turns."""
    left_out: Mapping[LeftOut, int]
    """How many, by cause; a cause that did not occur is not named."""


def transitions_of(
    trajectories: Iterable[Trajectory], observations: ObservationWriter, *, max_tokens: int | None = None
) -> Transitions:
    """The transitions of all turns, each (tokens, answer) once. ``max_tokens``: of both together; None = no limit.

    A turn in which a model was called several times acts by its last written tokens.
    """
    found: dict[tuple[tuple[int, ...], str], Transition] = {}
    left_out: Counter[LeftOut] = Counter()
    for trajectory in trajectories:
        for each in _answered(trajectory, observations, max_tokens):
            if isinstance(each, Transition):
                left_out["repeated"] += found.setdefault((each.prompt_ids, each.text), each) is not each
            else:
                left_out[each] += 1
    return Transitions(tuple(found.values()), {cause: count for cause, count in left_out.items() if count})


def _answered(
    trajectory: Trajectory, observations: ObservationWriter, max_tokens: int | None
) -> Iterator[Transition | LeftOut]:
    """Of each turn its transition, or why there is none."""
    acted = {span.turn: (row.token_ids, span.stop) for row in trajectory.rows for span in row.spans}
    answers = [*(turn.observation for turn in trajectory.turns[1:]), trajectory.final_observation]
    begins = observations.prefix
    for number, (turn, answer) in enumerate(zip(trajectory.turns, answers, strict=False)):
        is_last = number + 1 == len(trajectory.turns)
        if is_last and trajectory.outcome == "environment_error":
            yield "broken"
            continue
        if number not in acted:
            yield "unwritten"
            continue
        token_ids, stop = acted[number]
        try:
            prompt_ids, written_ids = (*token_ids[:stop], *begins), observations.write(answer)
        except ModelError:
            yield "framed"
            continue
        text = observations.read(written_ids)
        if token_ids[stop:] and token_ids[stop : stop + len(begins)] != begins:
            yield "foreign"
        elif not text:
            yield "empty"
        elif max_tokens is not None and len(prompt_ids) + len(written_ids) > max_tokens:
            yield "too_long"
        else:
            tool = "" if turn.action is None else f"{turn.action.target}.{turn.action.operation}"
            name = f"{trajectory.id}/{number}"
            yield Transition(name, trajectory.task_id, tool, prompt_ids, written_ids, text)


def most_common(transitions: Iterable[Transition]) -> dict[str, str]:
    """By tool, the output that it gives most often; of equals the one that comes first in the alphabet."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in transitions:
        counts[each.tool][each.text] += 1
    return {tool: min(texts, key=lambda text: (-texts[text], text)) for tool, texts in counts.items()}


def capped(transitions: Sequence[Transition], ratio: float, *, seed: int) -> list[Transition]:
    """Of each tool all transitions with another output than its most common, and ``ratio`` times as many with it.

    Which of those stay is drawn from the seed; the order stays. A tool that has one output only has nothing to
    teach and goes.
    """
    usual = most_common(transitions)
    others = Counter(each.tool for each in transitions if each.text != usual[each.tool])
    room = {tool: int(ratio * others[tool]) for tool in usual}
    kept = set[int]()
    for place in np.random.default_rng(seed).permutation(len(transitions)).tolist():
        each = transitions[place]
        if each.text != usual[each.tool]:
            kept.add(place)
        elif room[each.tool]:
            room[each.tool] -= 1
            kept.add(place)
    return [transitions[place] for place in sorted(kept)]


def observation_rows(transitions: Iterable[Transition]) -> tuple[TrainingRow, ...]:
    """Rows for supervised training whose written tokens are the next observation, each with weight 1."""
    return tuple(_row(each) for each in transitions)


def _row(transition: Transition) -> TrainingRow:
    starts, token_ids = len(transition.prompt_ids), (*transition.prompt_ids, *transition.written_ids)
    weights: FloatArray = np.ones(len(transition.written_ids), dtype=np.float32)
    return TrainingRow(
        transition.id, np.array(token_ids, dtype=np.int64), np.arange(starts, len(token_ids)), weights, None
    )


def refuse_seen(trained: Iterable[Transition], held_out: Sequence[Transition]) -> None:
    """Raises TrainingError when a held-out transition continues tokens that are trained on, or there is none."""
    known = {each.prompt_ids for each in trained}
    seen = [each for each in held_out if each.prompt_ids in known]
    if not held_out:
        raise TrainingError("there are no held-out transitions to evaluate on; give at least one, or None")
    if seen:
        raise TrainingError(
            f"{len(seen)} of {len(held_out)} held-out transitions, such as {seen[0].id!r}, continue tokens that "
            "are trained on too: they would say nothing of what was not seen. Leave them out on one side"
        )


def of_same_tools(held_out: Sequence[Transition], kept: Sequence[Transition]) -> tuple[Transition, ...]:
    """What is held out of the tools that are learned: the others were left out for having nothing to teach."""
    learned = {each.tool for each in kept}
    found = tuple(each for each in held_out if each.tool in learned)
    if not found:
        raise TrainingError(
            f"none of the {len(held_out)} held-out transitions is of a tool that is learned "
            f"({', '.join(map(repr, sorted(learned)))}); hold some of those out"
        )
    return found


def transitions_digest(transitions: Sequence[Transition]) -> str:
    """The identity of transitions in their order."""
    found = hashlib.sha256()
    for each in transitions:
        found.update(repr((each.id, each.prompt_ids, each.text)).encode())
    return found.hexdigest()
