"""The project's vocabulary as frozen records, and their JSON form.

Data that crosses a package boundary is one of these records; ``codec`` writes and reads them. Storage is in
``pool``. Start with ``trajectory`` and ``decision``.
"""

from upturn.records.agent import AgentKind, AgentVersion
from upturn.records.call import Call, CallContent, CallStatus, HedgeAnswer
from upturn.records.codec import (
    RECORD_VERSION,
    fields_json,
    from_fields,
    from_json,
    is_suspect,
    serialization_problem,
    to_json,
)
from upturn.records.decision import (
    Alternative,
    Arm,
    Decision,
    FamilySource,
    Feedback,
    FeedbackSubject,
    Forecast,
    TextSource,
    eligible_alternatives,
)
from upturn.records.evaluation import Evaluation, EvaluationVerdict, GateResult
from upturn.records.json import JsonValue
from upturn.records.key import AdminAct, ApiKey, Role
from upturn.records.limits import AgentLimits
from upturn.records.preference import (
    PreferencePair,
    PreferenceSource,
    RatedTrajectory,
    pair_problem,
    written_tokens,
)
from upturn.records.recall import Recall, Recalled
from upturn.records.record import record
from upturn.records.release import CanaryVerdict, Release, ReleaseEvidence, ReleaseState, Run, RunState, Snapshot
from upturn.records.result import Result
from upturn.records.sink import TrajectorySink
from upturn.records.task import EPISODE_TASK, MODEL_CALL, Split, Task, episode_task_id
from upturn.records.tool import Tool
from upturn.records.trajectory import (
    Action,
    Group,
    ModelUsage,
    Observation,
    Origin,
    Outcome,
    TokenRow,
    Trajectory,
    Turn,
    Usage,
    WrittenSpan,
)

__all__ = [
    "EPISODE_TASK",
    "MODEL_CALL",
    "RECORD_VERSION",
    "Action",
    "AdminAct",
    "AgentKind",
    "AgentLimits",
    "AgentVersion",
    "Alternative",
    "ApiKey",
    "Arm",
    "Call",
    "CallContent",
    "CallStatus",
    "CanaryVerdict",
    "Decision",
    "Evaluation",
    "EvaluationVerdict",
    "FamilySource",
    "Feedback",
    "FeedbackSubject",
    "Forecast",
    "GateResult",
    "Group",
    "HedgeAnswer",
    "JsonValue",
    "ModelUsage",
    "Observation",
    "Origin",
    "Outcome",
    "PreferencePair",
    "PreferenceSource",
    "RatedTrajectory",
    "Recall",
    "Recalled",
    "Release",
    "ReleaseEvidence",
    "ReleaseState",
    "Result",
    "Role",
    "Run",
    "RunState",
    "Snapshot",
    "Split",
    "Task",
    "TextSource",
    "TokenRow",
    "Tool",
    "Trajectory",
    "TrajectorySink",
    "Turn",
    "Usage",
    "WrittenSpan",
    "eligible_alternatives",
    "episode_task_id",
    "fields_json",
    "from_fields",
    "from_json",
    "is_suspect",
    "pair_problem",
    "record",
    "serialization_problem",
    "to_json",
    "written_tokens",
]
