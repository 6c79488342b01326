"""Nameplate rates by device name, and measured rates with a scripted clock."""

from collections.abc import Iterator

import pytest
import torch

from benchmarks.machine import accelerator
from benchmarks.machine.accelerator import device_name, find_device, nameplate_rate, now, product_rate


@pytest.mark.parametrize(
    ("name", "tera"),
    [
        ("NVIDIA H200", 989),
        ("NVIDIA H200 NVL", 835),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA RTX A1000", None),
        ("NVIDIA H20", None),
        ("cpu", None),
    ],
)
def test_nameplate_rates_are_those_of_the_data_sheets(name: str, tera: float | None) -> None:
    assert nameplate_rate(name) == (None if tera is None else tera * 1e12)


def test_best_size_counts_and_each_is_timed_over_eight_products(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[float] = iter([0.0, 2.0, 10.0, 11.0])  # eight of 2·4³ in 2 s, then eight of 2·8³ in 1 s
    monkeypatch.setattr(accelerator, "now", lambda _: next(clock))
    assert product_rate("cpu", (4, 8)) == 8 * 1024.0


@pytest.mark.parametrize(("is_available", "expected"), [(True, "cuda"), (False, None)])
def test_device_is_cuda_when_torch_can_use_it(
    monkeypatch: pytest.MonkeyPatch, is_available: bool, expected: str | None
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_available)
    assert find_device() == expected


def test_clock_waits_and_driver_names_the_device_only_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append("waited"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert now("cpu") <= now("cpu")
    assert not waits
    now("cuda")
    assert waits == ["waited"]
    assert (device_name("cpu"), device_name("cuda")) == ("cpu", "NVIDIA H200")
