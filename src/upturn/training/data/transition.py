"""Transitions: the tokens up to an action, and the next observation. No torch here.

They come from any trajectory with recorded tokens, of successes and failures, agents and people: the environment's
answers do not depend on who acts.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from upturn.errors import ModelError, TrainingError
from upturn.models import ObservationWriter
from upturn.records import Trajectory, record
from upturn.training.row import TrainingRow

TransitionExclusion = Literal["unwritten", "shared", "foreign", "broken", "framed", "empty", "too_long", "repeated"]
"""``unwritten``: no tokens were recorded for the turn. ``shared``: its message has several calls, so that its
answer does not follow it alone. ``foreign``: another renderer recorded what follows the
action. ``broken``: the environment failed and has no answer. ``framed``: the renderer puts other tokens around this
observation than around most, as that of ``nano`` does around errors. ``empty``: there is no text to predict.
``too_long``: more than the maximum number of tokens. ``repeated``: the same answer after the same tokens exists."""


@record
class Transition:
    """An action in its history, and the next observation."""

    id: str
    """Trajectory and turn."""
    task_id: str
    tool: str
    """``target.operation``; empty = the written text is no valid action."""
    prompt_ids: tuple[int, ...]
    """The recorded tokens up to and including the action, and the prefix of an observation."""
    written_ids: tuple[int, ...]
    """The observation as a model would write it, including the stop token."""
    text: str
    """The text of ``written_ids``: the observation as agents read it."""


class Transitions(NamedTuple):
    """The transitions of trajectories."""

    transitions: tuple[Transition, ...]
    """In the order of trajectories and turns."""
    excluded: Mapping[TransitionExclusion, int]
    """Counts by cause, without causes that did not occur."""


def extract_transitions(
    trajectories: Iterable[Trajectory], observations: ObservationWriter, *, max_tokens: int | None = None
) -> Transitions:
    """Returns the transitions of all turns, without repetitions. ``max_tokens``: of prompt and observation
    together; None = no limit.

    A turn with several model calls acts by its last written tokens."""
    transitions: dict[tuple[tuple[int, ...], str], Transition] = {}
    excluded: Counter[TransitionExclusion] = Counter()
    for trajectory in trajectories:
        for result in _extract(trajectory, observations, max_tokens):
            if not isinstance(result, Transition):
                excluded[result] += 1
            elif transitions.setdefault((result.prompt_ids, result.text), result) is not result:
                excluded["repeated"] += 1
    return Transitions(tuple(transitions.values()), dict(excluded))


def _extract(
    trajectory: Trajectory, observations: ObservationWriter, max_tokens: int | None
) -> Iterator[Transition | TransitionExclusion]:
    """Yields for each turn its transition, or why there is none."""
    actions = {span.turn: (row.token_ids, span.stop) for row in trajectory.rows for span in row.spans}
    answers = [*(turn.observation for turn in trajectory.turns[1:]), trajectory.final_observation]
    prefix = observations.prefix
    for number, (turn, answer) in enumerate(zip(trajectory.turns, answers, strict=False)):
        is_last = number + 1 == len(trajectory.turns)
        if is_last and trajectory.outcome == "environment_error":
            yield "broken"
            continue
        if number not in actions:
            yield "unwritten"
            continue
        following = trajectory.turns[number + 1].call if not is_last else trajectory.dropped_calls
        if turn.call > 0 or following > 0:
            yield "shared"
            continue
        token_ids, stop = actions[number]
        try:
            prompt_ids, written_ids = (*token_ids[:stop], *prefix), observations.write(answer)
        except ModelError:
            yield "framed"
            continue
        text = observations.read(written_ids)
        if token_ids[stop:] and token_ids[stop : stop + len(prefix)] != prefix:
            yield "foreign"
        elif not text:
            yield "empty"
        elif max_tokens is not None and len(prompt_ids) + len(written_ids) > max_tokens:
            yield "too_long"
        else:
            tool = "" if turn.action is None else turn.action.name
            name = f"{trajectory.id}/{number}"
            yield Transition(name, trajectory.task_id, tool, prompt_ids, written_ids, text)


def most_common_outputs(transitions: Iterable[Transition]) -> dict[str, str]:
    """Returns each tool's most common output; ties go to the alphabetically first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for transition in transitions:
        counts[transition.tool][transition.text] += 1
    return {tool: min(texts, key=lambda text: (-texts[text], text)) for tool, texts in counts.items()}


def cap_common_outputs(transitions: Sequence[Transition], ratio: float, *, seed: int) -> list[Transition]:
    """Returns the transitions with at most ``ratio`` times as many of a tool's most common output as of its others.

    Which of them stay is drawn from the seed; the order stays. A tool with a single output has no training signal
    and is dropped."""
    common = most_common_outputs(transitions)
    others = Counter(transition.tool for transition in transitions if transition.text != common[transition.tool])
    quota = {tool: int(ratio * others[tool]) for tool in common}
    chosen = set[int]()
    for index in np.random.default_rng(seed).permutation(len(transitions)).tolist():
        transition = transitions[index]
        if transition.text != common[transition.tool]:
            chosen.add(index)
        elif quota[transition.tool]:
            quota[transition.tool] -= 1
            chosen.add(index)
    return [transitions[index] for index in sorted(chosen)]


def observation_rows(transitions: Iterable[Transition]) -> tuple[TrainingRow, ...]:
    """Returns rows for supervised training on the next observations, each token with weight 1."""
    return tuple(map(_row, transitions))


def _row(transition: Transition) -> TrainingRow:
    token_ids = np.array((*transition.prompt_ids, *transition.written_ids), dtype=np.int64)
    positions = np.arange(len(transition.prompt_ids), len(token_ids))
    return TrainingRow(transition.id, token_ids, positions, np.ones(len(positions), dtype=np.float32), None)


def check_unseen(trained: Iterable[Transition], held_out: Sequence[Transition]) -> None:
    """Raises TrainingError when a held-out transition has the prompt of a trained one, or there is none."""
    prompts = {transition.prompt_ids for transition in trained}
    seen = [transition for transition in held_out if transition.prompt_ids in prompts]
    if not held_out:
        raise TrainingError("there are no held-out transitions to evaluate on; give at least one, or None")
    if seen:
        raise TrainingError(
            f"{len(seen)} of {len(held_out)} held-out transitions, such as {seen[0].id!r}, continue tokens that "
            "are trained on too, so their score is no held-out score. Leave them out on one side"
        )


def filter_by_tools(held_out: Sequence[Transition], trained: Sequence[Transition]) -> tuple[Transition, ...]:
    """Returns the held-out transitions of the trained tools. Raises TrainingError if there is none."""
    tools = {transition.tool for transition in trained}
    filtered = tuple(transition for transition in held_out if transition.tool in tools)
    if not filtered:
        raise TrainingError(
            f"none of the {len(held_out)} held-out transitions is of a trained tool "
            f"({', '.join(map(repr, sorted(tools)))}); hold some of those out"
        )
    return filtered


def transitions_digest(transitions: Sequence[Transition]) -> str:
    """Returns a hash of the transitions in their order."""
    digest = hashlib.sha256()
    for transition in transitions:
        digest.update(repr((transition.id, transition.prompt_ids, transition.text)).encode())
    return digest.hexdigest()
