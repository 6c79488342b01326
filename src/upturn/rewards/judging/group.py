"""Scores of several works on one task, relative to each other, and a limit on what a judge may cost."""

from collections.abc import Sequence
from itertools import combinations

from upturn.rewards.judging.comparison import Pair, PairJudge, Verdict, compare_pairs
from upturn.rewards.judging.ensemble import vote


def group_scores(judge: PairJudge, task: str, works: Sequence[str]) -> tuple[float | None, ...]:
    """In [0, 1]: the share of comparisons that each work wins against the others, in both orders; ties count half.

    n · (n − 1) questions for n works. An order without a verdict counts as a tie, a comparison without any not at
    all; None = a work has none. Equal works are ties without a question. Scores are relative: compare them within
    the group only.
    """
    points: list[list[float]] = [[] for _ in works]
    for one, other in combinations(range(len(works)), 2):
        if works[one] == works[other]:
            share = 0.5
        else:
            (compared,) = compare_pairs(judge, [Pair("", task, works[one], works[other])])
            if compared.forward is None and compared.backward is None:
                continue
            share = (1 + vote(compared)) / 2
        points[one].append(share)
        points[other].append(1 - share)
    return tuple(sum(shares) / len(shares) if shares else None for shares in points)


class LimitedJudge:
    """A judge that is asked at most so many questions; the further ones have no verdict. A ``PairJudge``.

    The limit bounds the cost: a question costs at most the prompt, both works and the tokens of an answer.
    """

    def __init__(self, judge: PairJudge, questions: int) -> None:
        self._judge = judge
        self.questions_left = questions
        self.refused = 0
        """Questions beyond the limit."""

    def __call__(self, task: str, first: str, second: str) -> Verdict:
        """The judge's verdict; None beyond the limit."""
        if self.questions_left <= 0:
            self.refused += 1
            return None
        self.questions_left -= 1
        return self._judge(task, first, second)
