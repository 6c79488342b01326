import torch

from upturn.models.engine.store import Store


def test_contents_survive_growth() -> None:
    store = Store(2, 3, 4, like=torch.empty(0))
    store.reserve(2, 5)
    heads = torch.arange(2 * 6 * 4).float().reshape(2, 6, 4)
    for layer in store.layers:
        store.write(layer, store.indices(torch.tensor([1, 0]), torch.tensor([4, 2])), heads + 100 * layer)
    store.reserve(5, 70)
    assert store.rows >= 5 and store.columns >= 70
    for rows in (slice(0, 2), torch.tensor([0, 1])):
        key, value = store.read(1, rows, 5)
        assert key.shape == value.shape == (2, 3, 5, 4)
        torch.testing.assert_close(key[1, :, 4], heads[0, :3] + 100)
        torch.testing.assert_close(value[0, :, 2], heads[1, 3:] + 100)
        assert int((key != 0).sum()) == 24  # all other entries are 0


def test_a_slice_of_rows_is_read_in_place() -> None:
    store = Store(1, 1, 2, like=torch.empty(0))
    store.reserve(3, 4)
    store.columns_of(0, 2, 1, 3).fill_(5.0)
    key, _ = store.read(0, slice(1, 3), 4)
    assert key[1, 0].tolist() == [[0, 0], [5, 5], [5, 5], [0, 0]]
    store.forget()
    assert not key.any()


def test_existing_capacity_is_not_reallocated() -> None:
    store = Store(1, 1, 2, like=torch.empty(0))
    store.reserve(3, 40)
    before = store.read(0, slice(0, 3), 1)[0].data_ptr()
    store.reserve(2, 64)
    assert store.read(0, slice(0, 3), 1)[0].data_ptr() == before
