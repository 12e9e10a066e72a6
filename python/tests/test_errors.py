"""Errors carry where and what, not only a message."""
import pickle
import shutil

import pytest

import qsf


def test_damage_names_file_place_and_values(demo, tmp_path):
    path = tmp_path / "damaged.qsf"
    shutil.copy(demo / "demo-1m-4bit.qsf", path)
    layer = qsf.inspect(path)["layers"][1]
    with path.open("r+b") as file:
        # Behind the chunk table of the layer.
        file.seek(layer["offset"] + 4096)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    for look in (lambda: qsf.inspect(path, verify=True), lambda: qsf.open(path), lambda: qsf.Model(path)):
        with pytest.raises(qsf.BadInputError) as caught:
            look()
        error = caught.value
        assert error.file == str(path)
        assert layer["offset"] <= error.offset < layer["offset"] + layer["stored_bytes"]
        assert error.expected.startswith("CRC32") and error.found and error.expected != error.found
        assert str(path) in str(error) and str(error.offset) in str(error)


def test_a_missing_file_says_what_the_system_said(tmp_path):
    missing = tmp_path / "there is none.qsf"
    with pytest.raises(qsf.BadInputError) as caught:
        qsf.inspect(missing)
    assert caught.value.file == str(missing) and isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_broken_weight_names_its_tensor(demo, tmp_path):
    model = tmp_path / "broken"
    shutil.copytree(demo / "demo-1m", model)
    weights = next(model.glob("*.safetensors"))
    data = bytearray(weights.read_bytes())
    # The last value of the last tensor in the file, an f16, becomes a NaN.
    data[-2:] = b"\xff\x7f"
    weights.write_bytes(data)
    with pytest.raises(qsf.BadInputError) as caught:
        qsf.convert(model, tmp_path / "x.qsf")
    error = caught.value
    assert error.tensor in qsf.open(demo / "demo-1m") and "NaN" in error.found and error.file == str(model)
    assert not (tmp_path / "x.qsf").exists()


@pytest.mark.parametrize("options, message", [
    ({"qant": "4bit"}, 'qant: .*did you mean "quant"'),
    ({"quant": "7bit"}, "7bit"),
    ({"force": "yes"}, "force: expected true or false"),
    ({"block_size": 48}, "48"),
    ({"target_size": "500kB", "target_bpw": 3.5}, "cannot be used with"),
    ({"dry_run": True}, "dry_run"),
    ({"quant": object()}, "quant: expected"),
    ({"threads": 0}, "threads 0"),
])
def test_options_are_checked_before_anything_is_done(demo, tmp_path, options, message):
    with pytest.raises(qsf.UsageError, match=message) as caught:
        qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", **options)
    assert isinstance(caught.value, ValueError) and not list(tmp_path.iterdir())


def test_a_missed_limit_says_where_the_file_is(demo, text, tmp_path):
    with pytest.raises(qsf.MissedLimitsError, match="KL divergence|kld") as caught:
        qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", quant="2bit", eval=text, eval_chunks=2, max_kld=0.001)
    assert caught.value.file == str(tmp_path / "x.rejected.qsf")
    assert (tmp_path / "x.rejected.qsf").exists() and not (tmp_path / "x.qsf").exists()


def test_a_budget_that_is_too_small_is_a_memory_error(demo, text):
    with pytest.raises(qsf.OutOfMemoryError) as caught:
        qsf.evaluate(demo / "demo-1m-4bit.qsf", text, ram_budget="1MB")
    assert isinstance(caught.value, MemoryError)


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"max_tokens": 10**6},
                                     {"system_prompt": "Be short."}])
def test_requests_that_cannot_be_are_refused(demo, options):
    with pytest.raises(qsf.UsageError):
        qsf.generate(demo / "demo-1m-4bit.qsf", "Once upon a time", **options)


def test_errors_go_through_pickle_with_all_they_know():
    error = qsf.BadInputError("damaged", file="a.qsf", tensor="head", offset=7, expected="x", found="y")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is qsf.BadInputError and vars(back) == vars(error) and str(back) == "damaged"
