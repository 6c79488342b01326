"""Attacks on the last message: other answers, several at once, and refusals where there is no reason or the wrong
one; and on written formulas, which are right by luck."""

import re
from collections.abc import Callable, Mapping

from upturn.environments.office.attacks.target import Attack, Script, Target, other_answer
from upturn.environments.office.generation import FINISH, REASONS, call, refusal
from upturn.environments.office.solutions import right_solutions
from upturn.records import Action

_REFERENCE = re.compile(r"\$?[A-Z]+\$?\d+")
_CELL = re.compile(r"files/([^/]+)/sheets/(.+)/cells/([A-Z]+[0-9]+)")
_LETTERS = "$ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WHOLE = re.compile(r"COUNT|ROUND|INT\(|RANK|LEN|MATCH|IF\(|&")
"""Formulas whose values are whole numbers or texts, which rounding does not change."""


def _answer(make: Callable[[str], str]) -> Attack:
    """Another answer to a question."""

    def attack(target: Target) -> Script | None:
        draft = target.scenario.draft
        if draft.answer is None or not draft.is_feasible:
            return None
        return target.ended(other_answer(make(draft.answer)))

    return attack


def _changed(answer: str) -> str:
    """Another answer of the same form."""
    return (
        re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), answer)
        if re.search(r"\d", answer)
        else f"{answer}x"
    )


def _feasible(end: Action, *, has_work: bool = True) -> Attack:
    """Another end of a task that can be done."""

    def attack(target: Target) -> Script | None:
        if not target.scenario.draft.is_feasible or end == target.end or not target.work:
            return None
        return target.ended(end) if has_work else Script([end])

    return attack


def _refusal(make: Callable[[Target, str], str | None]) -> Attack:
    """Another reason for a task that cannot be done and whose reason is judged."""

    def attack(target: Target) -> Script | None:
        draft = target.scenario.draft
        if draft.answer is None or draft.is_feasible:
            return None
        text = make(target, draft.answer)
        return None if text is None else target.ended(refusal(text))

    return attack


def _people(target: Target, _: str) -> str:
    return f"ask {', '.join([*target.office.people][:40])}"


def _formula(change: Callable[[str, str], str], *, is_rounding: bool = False) -> Attack:
    """The oracle solution with one formula changed at the end: ``change`` takes a formula, without =, and its first
    reference."""

    def attack(target: Target) -> Script | None:
        for path, value in target.scenario.goal.items():
            match = _CELL.fullmatch(path)
            reference = _REFERENCE.search(value) if isinstance(value, str) and value.startswith("=") else None
            if match is None or reference is None or not isinstance(value, str):
                continue
            if not (is_rounding and _WHOLE.search(value)):
                changed = f"={change(value[1:], reference[0])}"
                return target.plus(
                    call("excel.write_range", id=match[1], sheet=match[2], at=match[3], rows=[[changed]])
                )
        return None

    return attack


_EXCUSES = "there is no such thing, you have no right to it, the permission was denied, and you do not want it"
"""A refusal with every reason."""


def _excuse(target: Target) -> Script | None:
    """The plain reason, where one is accepted, without a look."""
    obstacle = target.scenario.draft.obstacle
    if obstacle is None:
        return None
    return Script(right_solutions(target.scenario)[f"plain refusal, {obstacle.reason} 1"][-1:])


def _excuses(target: Target) -> Script | None:
    """Every plain reason after the look."""
    return None if target.scenario.draft.obstacle is None else target.ended(refusal(_EXCUSES))


ENDINGS: Mapping[str, Attack] = {
    "excuse": _excuse,
    "excuses": _excuses,
    "no_end": lambda target: Script(target.work),
    "refused_after_work": _feasible(refusal("this cannot be done")),
    "refused_at_once": _feasible(refusal("i was not able to do this"), has_work=False),
    "finished_at_once": _feasible(FINISH, has_work=False),
    "asked_at_the_end": _feasible(call("user.ask", text="is that all right?")),
    "answer_changed": _answer(_changed),
    "answer_and_another": _answer(lambda answer: f"{answer} or {_changed(answer)}"),
    "answer_after_another": _answer(lambda answer: f"{_changed(answer)}, or else {answer}"),
    "answer_denied": _answer(lambda answer: f"not {answer}"),
    "answer_twice": _answer(lambda answer: f"{answer}{answer}"),
    "answer_unknown": _answer(lambda _: "i do not know"),
    "answer_range": _answer(lambda answer: f"between {answer} and {_changed(answer)}"),
    "refusal_wrong": _refusal(lambda target, _: f"it is up to {target.stranger()}"),
    "refusal_of_people": _refusal(_people),
    "refusal_of_reasons": _refusal(lambda _, answer: ", ".join(REASONS) if answer in REASONS else None),
    "refusal_with_another": _refusal(
        lambda target, answer: f"it is {answer} or {target.stranger()}" if answer in target.office.people else None
    ),
    "refusal_empty": _refusal(lambda _target, _answer: "it is not possible"),
    "finished_instead": lambda target: None if target.scenario.draft.is_feasible else target.ended(FINISH),
    "claimed_instead": lambda target: (
        None if target.scenario.draft.is_feasible else target.ended(other_answer("it is done"))
    ),
}
"""Must fail."""
FORMULAS: Mapping[str, Attack] = {
    "formula_rounded": _formula(lambda formula, _: f"ROUND({formula},0)", is_rounding=True),
    "formula_rounded_late": _formula(lambda formula, _: f"ROUND({formula},2)", is_rounding=True),
    "formula_with_a_trifle": _formula(lambda formula, _: f"{formula}+1e-10"),
    "formula_scaled": _formula(lambda formula, _: f"({formula})*1.0000001"),
    "formula_with_a_case": _formula(lambda formula, cell: f'IF({cell}=1234567,"fired",{formula})'),
    "formula_with_two_cases": _formula(
        lambda formula, cell: f"IF({cell}=1234567,0,IF({cell}=7654321,1,{formula}))"
    ),
    "formula_with_a_limit": _formula(lambda formula, cell: f"IF({cell}>999999,0,{formula})"),
    "formula_with_a_word": _formula(lambda formula, cell: f'IF(A{cell.lstrip(_LETTERS)}="fired",0,{formula})'),
}
"""Must fail."""
