"""Made-up facts of a demo, with round numbers; not a test module."""

from collections.abc import Mapping, Sequence

from upturn.config import ValidationSettings
from upturn.deployment.validation import Pair, validate
from upturn.loop.cycle import ReadinessReport
from upturn.loop.demo.demo import CoverageShare, Facts, FamilyShare
from upturn.loop.evaluation.evaluate import HeldoutResult, Mark
from upturn.loop.evaluation.reference_scores import Floor
from upturn.records import AgentVersion, Release, ReleaseEvidence, ReleaseState, Result

LEVELS = {"mail": 1, "sheet": 2}
PER_FAMILY = 20


def heldout(name: str, successes: Mapping[str, int], temperature: float = 1.0) -> HeldoutResult:
    """A result in which this many of 20 tasks succeed in each family."""
    marks = tuple(
        Mark(f"{family}-{number}", family, level, f"{name}/{family}-{number}", number < successes[family], False,
             {"success": float(number < successes[family])}, 2, 10,
             {"error": 0.0, "safety": 0.0})
        for number in range(PER_FAMILY)
        for family, level in LEVELS.items()
    )  # fmt: skip
    return HeldoutResult(name, f"nano@{name}", temperature, marks)


def release(name: str, state: ReleaseState, tasks: int) -> Release:
    """A release decided after this many tasks of the candidate."""
    last = ReleaseEvidence(
        3, 1, tasks, tasks // 2, tasks, tasks // 2, 0, 4.0, -1.0, 0.0,
        "promote" if state == "promoted" else "rollback", "enough evidence",
    )  # fmt: skip
    return Release(f"release-{name}", "nano", "nano@base", f"nano@{name}", (0.1, 1.0), state, 1, (last,))


def report(*names: str, holds: bool) -> ReadinessReport:
    """Checks that all hold, or all fail."""
    checks = tuple(Result(name, 7.0, bar=">= 5" if holds else ">= 5000", holds=holds) for name in names)
    return ReadinessReport(checks, holds)


def share(family: str, probability: float, *, is_counted: bool = True) -> FamilyShare:
    """A family that the rules lead by 40 points."""
    return FamilyShare(family, "rules@base", 0.4, probability, 120, is_counted)


def pairs(before: HeldoutResult, after: HeldoutResult) -> Sequence[Pair]:
    """The pairs of two held-out evaluations."""
    return [
        Pair(old.task_id, old.family, old.level, float(old.is_success), float(new.is_success))
        for old, new in zip(before.marks, after.marks, strict=True)
    ]


BEFORE, AFTER_SFT = heldout("base", {"mail": 12, "sheet": 4}), heldout("sft", {"mail": 16, "sheet": 10})
AFTER = heldout("grpo", {"mail": 20, "sheet": 16})

FACTS = Facts(
    before=BEFORE,
    before_greedy=heldout("base-greedy", {"mail": 13, "sheet": 5}, 0.0),
    after_sft=AFTER_SFT,
    after=AFTER,
    after_greedy=heldout("grpo-greedy", {"mail": 20, "sheet": 18}, 0.0),
    validation=validate(pairs(BEFORE, AFTER), ValidationSettings(resamples=1000), seed=0),
    floors=(Floor("mail", 1, 200, 1.0, 0.0, 0.02), Floor("sheet", 2, 200, 1.0, 0.0, 0.01)),
    readiness=report("points", "categories", holds=True),
    production_readiness=report("points", "categories", holds=False),
    arena=(heldout("arena", {"mail": 18, "sheet": 15}),),
    shares=(share("mail", 0.9), share("sheet", 0.7), share("other", 0.1, is_counted=False)),
    coverage=(
        CoverageShare("routing decisions", 50, 50),
        CoverageShare("executions", 48, 50),
        CoverageShare("evaluations", 45, 50),
        CoverageShare("agents", 3, 3),
    ),
    versions=(
        AgentVersion("nano", "base", "local_model"),
        AgentVersion("nano", "grpo", "local_model", weights_hash="0123456789abcdef", parent="nano@sft",
                     snapshot="snapshot-0123456789", run="demo-1"),
        AgentVersion("nano", "damaged", "local_model"),
    ),
    healthy=AFTER,
    damaged=heldout("damaged", {"mail": 18, "sheet": 10}),
    damaged_release=release("damaged", "rolled_back", 144),
    release=release("grpo", "promoted", 480),
    final_evaluation=None,
)  # fmt: skip
