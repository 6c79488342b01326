"""What a pool of imports can train, and why not more."""

import json
from pathlib import Path

from upturn.environments import oracle_of, play, resolve_kit
from upturn.loop.trainers import StoredWay, parse_full_config, survey_stored
from upturn.pool import IngestOptions, Pool, ingest, ingest_feedback


def talk(answer: object, model: str, reward: float | None, question: str = "how?") -> dict[str, object]:
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": messages, "model": model, "reward": reward}


def ways(folder: Path, *files: tuple[str, str]) -> dict[str, StoredWay]:
    config = parse_full_config(
        {"agents": [{"name": "nano", "kind": "local_model", "model": "nano"}], "pool": {"path": "pool.db"}}
    )
    with Pool.open(folder / "pool.db") as pool:
        for number, (content, kind) in enumerate(files):
            path = folder / str(number)
            path.write_text(content)
            if kind == "feedback":
                name = next(pool.trajectories(tenant="default")).id
                path.write_text(json.dumps({"trajectory": name, "thumbs": 1}))
                ingest_feedback(pool, path, tenant="default")
            else:
                ingest(pool, path, IngestOptions())
        return {way.kind: way for way in survey_stored(pool, config)}


def lines(*rows: object) -> str:
    return "\n".join(map(json.dumps, rows))


def test_conversations_with_rewards_are_demonstrations_and_pairs(tmp_path: Path) -> None:
    picture = [{"type": "image_url", "image_url": {"url": "x"}}]
    rows = [
        *(talk("so", "a", 1.0, f"how {number}?") for number in range(50)),
        talk("not", "b", 0.0, "how 0?"),
        talk("so", "b", 1.0, "how 1?"),
        talk("part", "b", 0.5, "how 2?"),
        talk(picture, "b", 1.0, "how 3?"),
        talk("open", "b", None),
    ]
    found = ways(tmp_path, (lines(*rows), "chat"), ("", "feedback"))
    supervised = found["supervised"]
    assert (supervised.command, supervised.number, supervised.refusal) == ("upturn train sft", 51, "")
    assert supervised.omissions == (
        "2 that failed, 1 imported: it has parts other than text (image_url), "
        "1 without a verdict or a score, or broken"
    )
    assert supervised.settings == (
        '[pool]\npath = "pool.db"\nimported_families = ["chat"]\n[sft]\nlimit_per_family = 51'
    )
    preference = found["preference"]
    assert preference.number == 2
    assert preference.settings.endswith('[dpo]\nold = "imported:a@chat"\nnew = "imported:b@chat"')
    assert (found["ratings"].number, found["ratings"].command) == (1, "upturn train kto")


def test_imports_are_no_policy_gradients(tmp_path: Path) -> None:
    found = ways(tmp_path, (lines({"prompt": "p", "chosen": "a", "rejected": "b"}), "preference"))
    assert found["preference"].settings == '[pool]\npath = "pool.db"\nimported_families = ["preference"]'
    assert {name: way.number for name, way in found.items()} == {
        "supervised": 0,
        "preference": 1,
        "ratings": 0,
        "off-policy": 0,
        "on-policy": 0,
    }
    assert found["off-policy"].omissions == "2 without their sampler's log-probs"
    assert found["on-policy"].omissions == "1 of 'imported'"
    assert found["on-policy"].refusal.startswith("imported tasks have no environment to act in")


def test_outcomes_without_answers_train_nothing(tmp_path: Path) -> None:
    found = ways(tmp_path, ("task,model,score\nt,a,1\nt,b,0\n", "outcomes"))
    assert (found["supervised"].number, found["supervised"].omissions) == (0, "2 without turns")
    assert found["preference"].number == 0


def test_an_environment_can_be_acted_in_again(tmp_path: Path) -> None:
    kit = resolve_kit("office")
    task = next(iter(kit.tasks(seed=0, split="train", families=["mail_flag"])))
    oracle = oracle_of(kit, task)
    assert oracle is not None
    trajectory = play(kit.environment(task), task, oracle)
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(task, trajectory, kit.verifier.verify(task, trajectory))
    found = ways(tmp_path)
    assert (found["on-policy"].number, found["on-policy"].settings) == (1, '[environment]\nname = "office"')
    assert (found["supervised"].number, found["off-policy"].number) == (1, 0)
