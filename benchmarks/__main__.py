"""``python -m benchmarks``: measurements against other libraries and earlier versions of this one."""

from upturn.cli import Target, command_group, run_command_line

COMMANDS = {
    "update": Target(
        "benchmarks.commands.update:bench_update", "Speed of the update, compared with TRL and the machine."
    ),
    "rollout": Target(
        "benchmarks.commands.rollout:bench_rollout", "Speed of sampling, compared with transformers."
    ),
    "attention": Target(
        "benchmarks.commands.attention:bench_attention", "Speed of the backends of tree attention."
    ),
    "memory": Target(
        "benchmarks.commands.memory:bench_memory", "Peak memory of a GRPO step, by form of the weights."
    ),
    "credit": Target("benchmarks.commands.credit:bench_credit", "Accuracy of turn-credit estimators."),
    "algorithms": Target(
        "benchmarks.commands.algorithms:bench_algorithms",
        "Success of all algorithms: on toys, with TRL, in errands.",
    ),
    "off-policy": Target(
        "benchmarks.commands.off_policy:bench_off_policy", "Coverage of off-policy intervals on adaptive logs."
    ),
    "gateway": Target("benchmarks.commands.gateway:bench_gateway", "Speed, durability and memory of the gateway."),
    "program": Target(
        "benchmarks.commands.program:bench_program", "Tokens, speed and troubles of programs as agents."
    ),
    "best-agent": Target(
        "benchmarks.commands.best_agent:bench_best_agent", "Tasks until the best agent is identified."
    ),
    "routing": Target(
        "benchmarks.commands.routing:bench_routing", "Regret of routing policies; time of a decision."
    ),
    "pool": Target("benchmarks.commands.pool:bench_pool", "Speed and bytes of the pool, on SQLite and PostgreSQL."),
    "privacy": Target(
        "benchmarks.commands.privacy:bench_privacy", "Personal data that is found, and words that are left alone."
    ),
    "recall": Target(
        "benchmarks.commands.recall:bench_recall", "Success with and without examples of similar successes."
    ),
    "judging": Target(
        "benchmarks.commands.judging:bench_judging", "What grades work: does it see work as it is, how fast."
    ),
    "errands-model": Target(
        "benchmarks.commands.errands_model:build_errands_model", "Build the model of the world errands."
    ),
}
app = command_group("benchmarks", "Measure speed and results of Upturn.", COMMANDS)

if __name__ == "__main__":
    run_command_line(app, "benchmarks")
