"""An episode that is sealed, and evaluated later by another process, teaches the router once."""

from pathlib import Path

from tests.gateway.live_desk import OLD, LiveDesk, config_of, live
from upturn.pool import Pool
from upturn.records import Evaluation


async def belief(desk: LiveDesk) -> tuple[float, float]:
    """Mean and number of outcomes of the clerk."""
    family = (await desk.client.get("/v1/router/state?family=general")).json()["families"][0]
    [entry] = [candidate for candidate in family["candidates"] if candidate["version"] == OLD]
    return entry["belief"]["mean"], entry["belief"]["weight"]


async def test_a_later_evaluation_of_a_sealed_episode_teaches_once_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    async with live(config_of(path)) as desk:
        before = await belief(desk)
        for _ in range(3):
            await desk.call(episode="session")
        sealed = (await desk.client.post("/v1/episodes/session/seal")).json()
        assert len(sealed["calls"]) == 3
        again = (await desk.client.post("/v1/episodes/session/seal")).json()
        assert again["trajectory_id"] == sealed["trajectory_id"]
        assert await belief(desk) == before
    with Pool.open(path) as pool:  # a verifier, days later
        trajectory = sealed["trajectory_id"]
        [task] = {record.task_id for record in pool.trajectories(tenant="default")}
        pool.append(Evaluation("v1", task, trajectory, "judge/1", "failure", (), {}, {}, None))
    async with live(config_of(path)) as desk:
        taught = await belief(desk)
        assert taught[0] < before[0]
        assert taught[1] == before[1] + 1
        await desk.rate(1.0, episode_id="session")
        await desk.rate(1.0, trajectory_id=trajectory)
        assert await belief(desk) == taught
    async with live(config_of(path)) as desk:
        assert await belief(desk) == taught
