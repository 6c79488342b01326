"""A gateway in front of the scripted vendor, once for all clients."""

from collections.abc import Iterator

import pytest

from tests.gateway.clients.served import MODELS, Served
from tests.gateway.clients.vendor import KEY, vendor
from tests.gateway.running import running

AGENT = """
[[agents]]
name = "{name}"
kind = "endpoint"
url = "{url}"
model = "vendor-model"
api_key_env = "VENDOR_KEY"
upstream = {{ dialect = "{name}" }}
"""


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with vendor() as upstream, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VENDOR_KEY", KEY)
        agents = "".join(AGENT.format(name=name, url=upstream.url) for name in MODELS)
        folder = tmp_path_factory.mktemp("gateway")
        (folder / "upturn.toml").write_text(f"loop = {{ train = [] }}\n{agents}", encoding="utf-8")
        with running(folder) as address:
            yield Served(address, upstream)
