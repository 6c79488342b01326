"""The gateway's traffic as training data: sealed episodes with the reward that their feedback gives.

Here: the rule of the reward, which episodes are the same task, and their reads. Not here: what a trainer does with
them (``loop.trainers``), and the making of episodes (``loop.online``). Start with ``reward``.
"""

from upturn.pool.traffic.episodes import Episode, has_traffic, read_episodes
from upturn.pool.traffic.reward import WITHOUT_REWARD, EpisodeReward, Opinions, episode_reward
from upturn.pool.traffic.same_task import as_prompt_task, prompt_task_id

__all__ = [
    "WITHOUT_REWARD",
    "Episode",
    "EpisodeReward",
    "Opinions",
    "as_prompt_task",
    "episode_reward",
    "has_traffic",
    "prompt_task_id",
    "read_episodes",
]
