"""``python -m benchmarks``: measurements against other libraries and against earlier states of this one."""

from upturn.cli import Target, command_group, run_command_line

COMMANDS = {
    "update": Target(
        "benchmarks.commands.update:bench_update", "Speed of the update, against TRL and the machine."
    ),
    "rollout": Target("benchmarks.commands.rollout:bench_rollout", "Speed of sampling, against transformers."),
    "credit": Target(
        "benchmarks.commands.credit:bench_credit",
        "Which estimators find the turn that mattered; who learns faster.",
    ),
    "algorithms": Target(
        "benchmarks.commands.algorithms:bench_algorithms",
        "What every way of learning reaches: on toys, with TRL, in errands.",
    ),
    "errands-model": Target(
        "benchmarks.commands.errands_model:build_errands_model", "Build the model of the world errands again."
    ),
}
app = command_group("benchmarks", "Measure what Upturn claims.", COMMANDS)

if __name__ == "__main__":
    run_command_line(app, "benchmarks")
