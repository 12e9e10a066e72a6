"""The tensors of a file: against the reader that was written from SPEC.md alone."""
import numpy as np
import pytest
import read_qsf

import qsf

CODED = ["2bit-sym", "2bit", "3bit", "4bit", "8bit", "ternary"]
TYPES = CODED + ["n2", "n3", "n4", "n5", "6bit", "t2", "t3", "x2", "x3", "x4", "f16", "bf16", "f32"]


def name_of(t):
    kind = read_qsf.KINDS[t.kind]
    return kind if t.layer is None else f"layer {t.layer} {kind}"


def make(demo, tmp_path, quant, **options):
    path = tmp_path / f"{quant}.qsf"
    qsf.convert(demo / "demo-1m", path, quant=quant, **options)
    return path


@pytest.mark.parametrize("quant", TYPES)
def test_values_are_those_of_the_independent_reader_bit_for_bit(demo, tmp_path, quant):
    outliers = {} if quant in ("f16", "bf16", "f32") else {"outliers": "0.5%"}
    path = make(demo, tmp_path, quant, **outliers)
    reader, file = read_qsf.Reader(path), qsf.open(path)
    seen = set()
    for t in reader.tensors():
        expected, tensor = np.asarray(reader.values(t), np.float32), file[name_of(t)]
        assert tensor.shape == (t.rows, t.cols)
        np.testing.assert_array_equal(tensor.values().view(np.uint32), expected.view(np.uint32), tensor.name)
        np.testing.assert_array_equal(np.asarray(tensor), expected)
        seen.add(tensor.name)
    assert seen == set(file.keys()) and len(file) == len(seen)


@pytest.mark.parametrize("layout", ["rows", "panels"])
@pytest.mark.parametrize("quant", CODED)
def test_scales_codes_mins_and_outliers_make_the_values(demo, tmp_path, quant, layout):
    file = qsf.open(make(demo, tmp_path, quant, layout=layout, outliers="0.5%"))
    apart = 0
    for tensor in (file[name] for name in file):
        if tensor.type != quant:
            continue
        codes, scales, mins = tensor.codes(), tensor.scales(), tensor.mins()
        assert codes.dtype == np.int8 and scales.dtype == np.float16 and codes.shape == tensor.shape
        assert tensor.layout == layout
        block = np.arange(tensor.shape[1]) // tensor.block_size
        values = scales.astype(np.float32)[:, block] * codes.astype(np.float32)
        if mins is not None:
            values += mins.astype(np.float32)[:, block]
        rows, cols, extra = tensor.outliers()
        values[rows, cols] += extra
        apart += len(extra)
        np.testing.assert_array_equal(tensor.values(), values, tensor.name)
    assert apart > 0


def test_scales_in_rows_and_raw_bytes_are_not_copied_and_cannot_be_written(demo, tmp_path):
    tensor = qsf.open(make(demo, tmp_path, "4bit", layout="rows"))["layer 0 attn_q"]
    for shown in (tensor.scales(), tensor.mins(), tensor.raw()):
        assert not shown.flags.owndata and not shown.flags.writeable
    # Both show the same memory: that of the file.
    assert np.shares_memory(tensor.scales(), tensor.raw())
    assert tensor.raw().nbytes == tensor.nbytes
    # The file may be closed and forgotten while an array still shows it.
    raw = tensor.raw()
    before = bytes(raw)
    del tensor
    assert bytes(raw) == before


def test_rows_can_be_had_apart_and_are_new_arrays(demo):
    tensor = qsf.open(demo / "demo-1m-4bit.qsf")["token_embedding"]
    whole = tensor.values()
    np.testing.assert_array_equal(tensor.values(5, 37), whole[5:37])
    assert tensor.values(7, 7).shape == (0, tensor.shape[1])
    part = tensor.values(0, 1)
    part[:] = 0
    np.testing.assert_array_equal(tensor.values(0, 1), whole[:1])
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    for wrong in [(3, 2), (0, len(tensor) + 1)]:
        with pytest.raises(IndexError):
            tensor.values(*wrong)


def test_the_source_has_tensors_of_the_same_names(demo):
    source, file = qsf.open(demo / "demo-1m"), qsf.open(demo / "demo-1m-8bit.qsf")
    assert set(source) == set(file)
    assert source.config["layers"] == file.config["layers"] == 4
    name = "layer 1 ffn_up"
    exact, near = source[name].values(), file[name].values()
    assert 0 < np.abs(exact - near).max() < 0.02 * np.abs(exact).max()


def test_what_is_not_there_is_an_error_that_says_so(demo, tmp_path):
    file = qsf.open(demo / "demo-1m-4bit.qsf")
    for wrong in ["attn_q", "layer 4 attn_q", "layer 0 attn_q_bias", ""]:
        assert wrong not in file
        with pytest.raises(KeyError):
            file[wrong]
    learned = qsf.open(make(demo, tmp_path, "n4"))["layer 0 attn_q"]
    with pytest.raises(qsf.UnsupportedModelError, match="layer 0 attn_q of type n4"):
        learned.codes()
