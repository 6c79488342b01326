"""Judges that compare two works: both orders, their biases, ensembles, and averages corrected by people's labels.

Pure functions of verdicts, and ``model_judge`` that asks a model. Not here: a judge that scores one work
(``rewards.judge``). Start with ``comparison``; ``bias`` measures a judge, ``ensemble`` joins judges, ``group``
scores works relative to each other, ``calibration`` corrects the average of many judgements."""

from upturn.rewards.judging.bias import BiasReport, measure_biases
from upturn.rewards.judging.calibration import prediction_powered_mean, rogan_gladen
from upturn.rewards.judging.comparison import (
    Compared,
    Pair,
    PairJudge,
    Verdict,
    compare_pairs,
    label_accuracy,
)
from upturn.rewards.judging.ensemble import (
    Ensemble,
    centred_by_judge,
    check_diversity,
    error_agreement,
    fit_ensemble,
)
from upturn.rewards.judging.group import LimitedJudge, group_scores
from upturn.rewards.judging.model_judge import ModelPairJudge, PairJudgement, replay

__all__ = [
    "BiasReport",
    "Compared",
    "Ensemble",
    "LimitedJudge",
    "ModelPairJudge",
    "Pair",
    "PairJudge",
    "PairJudgement",
    "Verdict",
    "centred_by_judge",
    "check_diversity",
    "compare_pairs",
    "error_agreement",
    "fit_ensemble",
    "group_scores",
    "label_accuracy",
    "measure_biases",
    "prediction_powered_mean",
    "replay",
    "rogan_gladen",
]
