"""The check of a new policy on a log: its probabilities learn the past only, and it must be shown not to lose."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from upturn.arbiter import (
    Candidate,
    DiscountedThompson,
    LoggedOutcome,
    PolicyGate,
    RuleBasedRouting,
    Tally,
    Uniform,
    always,
    check_policy,
    learned_target,
)
from upturn.records import Decision, Task

MakeDecision = Callable[..., Decision]
RATES = {"a@1": 0.8, "b@1": 0.4}
HALF = {"a@1": 0.5, "b@1": 0.5}


def make_log(
    make: MakeDecision, count: int, *, seed: int = 0, rates: Mapping[str, float] = RATES
) -> list[LoggedOutcome]:
    """Equal shares."""
    rng = np.random.default_rng(seed)
    chosen = [("a@1", "b@1")[int(rng.integers(2))] for _ in range(count)]
    return [
        LoggedOutcome(make(f"{number}", HALF, version), float(rng.random() < rates[version]))
        for number, version in enumerate(chosen)
    ]


def test_a_better_policy_passes_and_a_worse_one_fails(make_decision: MakeDecision) -> None:
    """True gains are +.2 and −.2 with standard errors of .02."""
    log = make_log(make_decision, 2000)
    better, worse = check_policy(log, always("a@1")), check_policy(log, always("b@1"))
    assert (better.verdict, better.is_passed) == ("pass", True)
    assert better.gain.value == pytest.approx(0.2, abs=0.08), "four standard errors: P < 1e-4"
    assert "a loss of more than 0.02 is excluded" in better.reasons[0]
    assert (worse.verdict, worse.is_passed) == ("fail", False)
    assert "shown to be worse" in worse.reasons[0]
    assert (better.shares, better.logged_shares) == ({"a": 1.0}, {"a": 0.5, "b": 0.5})
    assert better.logged.value == pytest.approx(np.mean([outcome.reward or 0.0 for outcome in log]))
    assert [estimate.method for estimate in better.estimates] == ["ips", "snips", "dm", "dr", "switch_dr"]


def test_the_logged_policy_itself_passes_with_any_margin(make_decision: MakeDecision) -> None:
    check = check_policy(make_log(make_decision, 120), lambda _decision: HALF, PolicyGate(margin=0.0))
    assert (check.verdict, check.gain.value, check.gain.low) == ("pass", 0.0, 0.0)


def test_evidence_that_is_too_little_fails_and_a_wider_margin_passes(make_decision: MakeDecision) -> None:
    """Equal agents: the true gain is 0, and its standard error .4 · .49/√150 = .016."""
    log = make_log(make_decision, 150, rates={"a@1": 0.6, "b@1": 0.6})
    other = {"a@1": 0.3, "b@1": 0.7}
    check = check_policy(log, lambda _decision: other)
    assert check.verdict == "fail"
    assert "is not excluded; log more decisions" in check.reasons[0]
    assert check_policy(log, lambda _decision: other, PolicyGate(margin=0.2)).verdict == "pass"


@pytest.mark.slow
def test_a_policy_that_loses_more_than_the_margin_rarely_passes(make_decision: MakeDecision) -> None:
    """A loss of exactly the margin passes in 2.5 %: 20 or more of 400 have P < 3e-3."""
    target = {"a@1": 0.4, "b@1": 0.6}  # loses .1 · (.8 − .4)
    logs = (make_log(make_decision, 300, seed=seed) for seed in range(400))
    passed = [check_policy(log, lambda _decision: target, PolicyGate(margin=0.04)).is_passed for log in logs]
    assert sum(passed) < 20


def test_refusals_do_not_depend_on_outcomes(make_decision: MakeDecision) -> None:
    log = make_log(make_decision, 99)
    few = check_policy(log, always("a@1"))
    assert (few.verdict, few.reasons) == (
        "refused",
        ("99 independent decisions have a reward, but 100 are needed; log more of them",),
    )
    unsupported = check_policy(make_log(make_decision, 200), always("c@1"))
    assert unsupported.verdict == "refused"
    assert unsupported.reasons[0].startswith("no support: in 200 of 200 draws")
    assert {estimate.value for estimate in unsupported.estimates} == {None}
    unknown = check_policy(make_log(make_decision, 200), always("a@1"), agents=("a", "b", "new"))
    assert unknown.verdict == "refused"
    assert unknown.reasons[0].startswith("the log never offered 'new'")
    empty = check_policy([], always("a@1"), agents=("a",))
    assert (empty.verdict, empty.reasons[0]) == ("refused", "no decision has an evaluated outcome")
    for value in (0.0, 1.0):
        same = [LoggedOutcome(outcome.decision, value) for outcome in log]
        assert check_policy(same, always("a@1")).reasons == few.reasons


def test_an_episode_is_one_decision(make_decision: MakeDecision) -> None:
    log = [
        LoggedOutcome(make_decision(f"{number}", HALF, "a@1", episode=f"e{number // 10}"), 1.0)
        for number in range(500)
    ]
    assert "50 independent decisions" in check_policy(log, always("a@1")).reasons[0]


def test_a_target_is_what_a_slow_replay_of_the_policy_gives(make_decision: MakeDecision) -> None:
    log = make_log(make_decision, 60)
    target = learned_target(DiscountedThompson(), log)
    slow = DiscountedThompson(tally=Tally())
    candidates = [Candidate("a", "a@1"), Candidate("b", "b@1")]
    for outcome in log:
        expected = slow.probabilities(Task("t", "", "mail", "call"), candidates)
        assert target(outcome.decision) == dict(zip(("a@1", "b@1"), expected, strict=True))
        slow.tally.add("mail", outcome.decision.chosen, outcome.reward)
    assert target(log[-1].decision)["a@1"] > 0.8, "the policy has learned that a@1 is better"


def test_a_long_log_is_learned_in_waves(make_decision: MakeDecision, monkeypatch: pytest.MonkeyPatch) -> None:
    """25 decisions and 10 updates: waves of 3, so the first three decisions have the same probabilities."""
    monkeypatch.setattr("upturn.arbiter.policy_check.MAX_UPDATES", 10)
    log = make_log(make_decision, 25)
    target = learned_target(DiscountedThompson(), log)
    shares = [target(outcome.decision)["a@1"] for outcome in log]
    for start in range(0, 25, 3):
        assert len(set(shares[start : start + 3])) == 1
    assert len(set(shares)) == 9


def test_a_target_uses_no_outcome_of_its_own_or_a_later_decision(make_decision: MakeDecision) -> None:
    log = make_log(make_decision, 40)
    turned = [*log[:20], *(LoggedOutcome(outcome.decision, 1.0 - (outcome.reward or 0.0)) for outcome in log[20:])]
    targets = learned_target(DiscountedThompson(), log), learned_target(DiscountedThompson(), turned)
    for outcome in log[:21]:
        assert targets[0](outcome.decision) == targets[1](outcome.decision)
    assert targets[0](log[-1].decision) != targets[1](log[-1].decision)


class TaskReader(Uniform):
    """Remembers the tasks that it was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[Task] = []

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        self.tasks.append(task)
        return super().probabilities(task, candidates)


def test_stored_tasks_reach_the_policy_and_others_are_built_from_the_decision(make_decision: MakeDecision) -> None:
    log = [LoggedOutcome(make_decision(name, HALF, "a@1"), 1.0) for name in ("1", "2")]
    policy, stored = TaskReader(), Task("task-1", "reply", "mail", "office")
    learned_target(policy, log, tasks={"task-1": stored})
    assert policy.tasks[0] is stored
    assert (policy.tasks[1].id, policy.tasks[1].family, policy.tasks[1].instruction) == ("task-2", "mail", "")


def test_a_canary_keeps_its_split_and_episodes_their_first_decision(make_decision: MakeDecision) -> None:
    shares = {"a@1": 0.45, "a@2": 0.05, "b@1": 0.5}
    log = [
        LoggedOutcome(make_decision("1", shares, "a@2", episode="e"), 1.0),
        LoggedOutcome(make_decision("2", shares, "b@1"), 1.0),
        LoggedOutcome(make_decision("3", shares, "a@2", episode="e"), 1.0),
    ]
    target = learned_target(RuleBasedRouting({}, "a", floor=0.02), log)
    assert target(log[1].decision) == pytest.approx({"a@1": 0.99 * 0.9, "a@2": 0.99 * 0.1, "b@1": 0.01})
    assert target(log[2].decision) == target(log[0].decision)


def test_agents_that_the_policy_does_not_know_get_nothing(make_decision: MakeDecision) -> None:
    log = make_log(make_decision, 150)
    target = learned_target(Uniform(), log, agents=("a",))
    assert target(log[0].decision) == {"a@1": 1.0}
    nobody = learned_target(Uniform(), log, agents=("new",))
    assert check_policy(log, nobody).reasons[0].startswith("no support: in 150 of 150 draws")


def test_gates_refuse_settings_without_sense() -> None:
    for settings in ({"margin": -0.1}, {"margin": 1.0}, {"min_decisions": 1}):
        with pytest.raises(ValueError, match="must be at least"):
            PolicyGate(**settings)
