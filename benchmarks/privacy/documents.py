"""Texts with identifiers in them: tickets, mails, logs, tables, code, JSON, pages, in four languages.

The templates are other ones than those that the detectors were written with. ``{kind}`` is replaced by an
identifier; all other words are to stay.
"""

import html
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from benchmarks.privacy.identifiers import MAKERS

TEMPLATES: Sequence[str] = (
    "Ticket 88213 was opened by {email} on 2024-05-20 about flight HAT136; please answer soon.",
    "Hi team, my address changed, it is now {email} (the old one, {email}, bounces). Order #W2378156 is open.",
    "From: {email}\nTo: {email}\nCc: <{email}>\nSubject: invoice 2023-114\n\nPlease find the 3 files attached.",
    "The customer left {phone} as a number where somebody answers between 9 and 17 h; reservation 4WQ150.",
    "Reach her on {phone}, or {phone} after 6 pm. She pays 1,299.00 USD for 2 tickets.",
    "Tel. {phone} | Fax: {phone} | Room 4.12",
    "id,mobile,city\n1,{phone},Berlin\n2,{phone},Lyon\n",
    "Ruf mich bitte unter {phone} zurück, die Bestellung 4421486 ist noch nicht da.",
    "Mon numéro est le {phone}, merci de rappeler avant 18 h.",
    "Charge it to {card} please, and not to the gift card with 128 dollars on it.",
    "payment failed for pan={card} amount=59.90 currency=EUR retries=3",
    "Karte {card}, gültig bis 12/27, Betrag 1.250,00 EUR",
    "Transfer the refund of 250 EUR to {iban} within 14 days.",
    "IBAN: {iban}; BIC: COBADEFFXXX; Verwendungszweck: Rechnung 10023",
    "{iban} is the account that the direct debit of 2024-03-01 came from.",
    "Applicant file: identifier {national_id}, score 712, decision pending.",
    "Patient {national_id} was admitted at 10:30 with a temperature of 38.5.",
    "Mein Ausweis: {national_id}. Ich wohne seit 2019 hier.",
    '{{"user": "u_8813", "tax_id": "{national_id}", "items": [1, 2, 3]}}',
    '{ip} - - [20/May/2024:10:30:12 +0000] "GET /v1/models HTTP/1.1" 200 5124 "-" "Mozilla/5.0 Chrome/120.0.0.0"',
    "Login from {ip} refused after 5 attempts; the last good one came from {ip} at 10:30:45.",
    "remote_addr={ip} status=502 upstream=10.0.3.17:8080 took 0.123 s",
    "dhcp: lease 192.168.1.20 for {mac} until 23:59:59",
    "Device {mac} left the mesh, rssi -67 dBm, 3 neighbours.",
    'import os\n\nAPI_KEY = "{key}"\nTIMEOUT_SECONDS = 30\n',
    "curl -H 'X-Token: {key}' https://api.acme.dev/v2/items?page=2",
    "oh no, I committed {key} to the repo, can you rotate it?",
    "env:\n  - name: SERVICE_KEY\n    value: {key}\n  - name: REGION\n    value: eu-west-1",
    "The wifi password is {password} and the printer is on floor 3.",
    "DB_PASSWORD={password}\nDB_HOST=db.internal\nDB_PORT=5432\n",
    '{{"login": "u_8813", "password": "{password}", "remember": true}}',
    "Das Passwort lautet {password} , bitte nach dem ersten Login ändern.",
    "She was born on {birth_date} in Lyon and moved to Bern in 2015.",
    "DOB: {birth_date}, weight 72 kg, blood pressure 120/80",
    "Date of birth {birth_date}; member since 2012-03-01",
    "Der Versicherte, geboren am {birth_date}, reicht Belege über 312,40 EUR ein.",
    '{{"first": "A", "date_of_birth": "{birth_date}", "created": "2024-05-20"}}',
    "Né le {birth_date} à Nantes, il habite au 3e étage.",
    "My passport number is {passport}, I fly on May 20 with 2 bags.",
    "Reisepass Nr. {passport}, gültig bis 2030",
    "Passport: {passport}\nVisa type: B2\nStay: 10 days",
    "engine = create_engine('postgresql://{credentials}@db.internal:5432/app', pool_size=5)",
    "git clone https://{credentials}@git.acme.dev/team/app.git && make test",
)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_AS_TEXT_ONLY = frozenset({"key", "password", "credentials"})
"""Kinds that the encodings below would change in a way that nobody decodes."""
_ENCODINGS: Mapping[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "json": lambda text: json.dumps(text)[1:-1],
    "nested json": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "percent": lambda text: quote(text, safe=" ,;:\n"),
    "entities": lambda text: html.escape(text).replace("@", "&#64;").replace("+", "&#x2b;"),
}


NAMES = "names"
"""The form of documents with names, addresses and organisations."""


class Document(NamedTuple):
    """A text with known identifiers."""

    text: str
    identifiers: tuple[tuple[str, int, int], ...]
    """Kind, start and stop of each."""
    form: str
    """How the template was written: plain, the name of the encoding, or ``NAMES``."""


def make_document(source: random.Random, template: str) -> Document:
    """Returns the template with identifiers, plain or in one of the encodings."""
    kinds = set(_PLACEHOLDER.findall(template.replace("{{", "").replace("}}", "")))
    form = "plain"
    if not kinds & _AS_TEXT_ONLY and source.random() < 0.4:
        form = source.choice([name for name in _ENCODINGS if name != "plain"])
    encode = _ENCODINGS[form]
    text, identifiers, end = "", [], 0
    unbraced = template.replace("{{", "\x01").replace("}}", "\x02")
    for match in _PLACEHOLDER.finditer(unbraced):
        text += encode(unbraced[end : match.start()].replace("\x01", "{").replace("\x02", "}"))
        value = encode(MAKERS[match[1]](source))
        identifiers.append((match[1], len(text), len(text) + len(value)))
        text, end = text + value, match.end()
    text += encode(unbraced[end:].replace("\x01", "{").replace("\x02", "}"))
    return Document(text, tuple(identifiers), form)


def make_documents(count: int, seed: int) -> list[Document]:
    """Returns documents, all templates equally often."""
    source = random.Random(seed)
    return [make_document(source, TEMPLATES[number % len(TEMPLATES)]) for number in range(count)]
