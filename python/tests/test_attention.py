"""Where a Model looks."""
import numpy as np
import pytest
import qsf

TEXT = "It was a dark and stormy night, and the king had gone to bed."


@pytest.fixture(scope="module")
def model(demo):
    return qsf.Model(demo / "demo-1m-4bit.qsf", threads=2)


def test_weights_are_shares_of_earlier_positions_and_keys_have_a_row_for_each_token(model):
    ids, config = model.tokenize(TEXT), model.config
    found = model.attention(TEXT)
    assert sorted(found) == sorted(f"layers.{i}.{part}" for i in range(config["layers"]) for part in ("weights", "keys"))
    for name, array in found.items():
        assert array.dtype == np.float32 and not array.flags.owndata
        if name.endswith("keys"):
            assert array.shape == (config["kv_heads"], len(ids), config["head_dim"])
            continue
        assert array.shape == (config["heads"], len(ids), len(ids))
        assert np.allclose(array.sum(-1), 1, atol=1e-5)
        assert (array >= 0).all() and (np.triu(array, 1) == 0).all(), "nobody sees what comes later"
    # Tokens give what their text gives, and what comes later changes nothing before.
    first = model.attention(ids[:5], layers=[1])
    assert sorted(first) == ["layers.1.keys", "layers.1.weights"]
    assert np.allclose(first["layers.1.weights"], found["layers.1.weights"][:, :5, :5], atol=1e-6)
    assert np.allclose(first["layers.1.keys"], found["layers.1.keys"][:, :5], atol=1e-5)


def test_what_cannot_be_shown_is_refused(model):
    with pytest.raises(qsf.QsfError, match="layers 0 to"):
        model.attention(TEXT, layers=[99])
    with pytest.raises(qsf.QsfError, match="context"):
        model.attention([1] * 100_000)
    with pytest.raises(qsf.QsfError, match="empty|no tokens"):
        model.attention([])


def test_a_budget_that_has_no_room_for_it_refuses_it(demo):
    with pytest.raises(qsf.QsfError, match="ram_budget"):
        qsf.Model(demo / "demo-1m-4bit.qsf", threads=2, ram_budget="400MB").attention(TEXT)
