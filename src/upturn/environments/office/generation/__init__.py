"""Generation of office tasks: base profiles, scenes, vocabulary, phrasings, files and tables.

Here: functions that draw a task's world and text from its seed, and the contract of a task family. Not here: the
families (``families``) and the state (``state``). Start with ``family``, then ``scene``.
"""

from upturn.environments.office.generation.agenda import earliest_common_start, fill_day, free_start, random_start
from upturn.environments.office.generation.conversation import (
    add_lookalikes,
    add_thread,
    any_channel,
    find_mail,
    members_of,
    message_about,
    new_channels,
    open_mail,
    post,
    send_by_chat_id,
)
from upturn.environments.office.generation.family import (
    FINISH,
    Draft,
    Family,
    OracleResult,
    Scenario,
    answer,
    call,
    refusal,
    with_agreement,
)
from upturn.environments.office.generation.fault_oracle import LOOKUPS, oracle_under_faults, wish_for
from upturn.environments.office.generation.grammar import RULES
from upturn.environments.office.generation.injected_order import Order, address_outside, has_order, new_order
from upturn.environments.office.generation.obstacle import Look, Obstacle
from upturn.environments.office.generation.profile import DRAWN, ITEMS, profile
from upturn.environments.office.generation.scene import DAYS, Scene
from upturn.environments.office.generation.task_file import (
    DECKS,
    DOCUMENTS,
    NOTES,
    REASONS,
    TITLES,
    TOPICS,
    TaskFile,
    add_contacts,
    add_deck,
    add_document,
    add_price_list,
    find_file,
)
from upturn.environments.office.generation.task_table import (
    GROUP_VALUES,
    KEYS,
    add_book,
    add_sheet,
    grouped_table,
    plain_table,
)
from upturn.environments.office.generation.wording import AMOUNTS, CITIES, CORRECTIONS, FOLDERS, PHRASES, REMARKS

__all__ = [
    "AMOUNTS",
    "CITIES",
    "CORRECTIONS",
    "DAYS",
    "DECKS",
    "DOCUMENTS",
    "DRAWN",
    "FINISH",
    "FOLDERS",
    "GROUP_VALUES",
    "ITEMS",
    "KEYS",
    "LOOKUPS",
    "NOTES",
    "PHRASES",
    "REASONS",
    "REMARKS",
    "RULES",
    "TITLES",
    "TOPICS",
    "Draft",
    "Family",
    "Look",
    "Obstacle",
    "OracleResult",
    "Order",
    "Scenario",
    "Scene",
    "TaskFile",
    "add_book",
    "add_contacts",
    "add_deck",
    "add_document",
    "add_lookalikes",
    "add_price_list",
    "add_sheet",
    "add_thread",
    "address_outside",
    "answer",
    "any_channel",
    "call",
    "earliest_common_start",
    "fill_day",
    "find_file",
    "find_mail",
    "free_start",
    "grouped_table",
    "has_order",
    "members_of",
    "message_about",
    "new_channels",
    "new_order",
    "open_mail",
    "oracle_under_faults",
    "plain_table",
    "post",
    "profile",
    "random_start",
    "refusal",
    "send_by_chat_id",
    "wish_for",
    "with_agreement",
]
