"""Functions give what the programs give."""
import json
import threading

import pytest

import qsf


def test_convert_gives_the_bytes_and_the_report_of_the_command_line(demo, program, tmp_path):
    ours, theirs = tmp_path / "ours.qsf", tmp_path / "theirs.qsf"
    report = qsf.convert(demo / "demo-1m", ours, quant="3bit", tensor_type=["ffn_down=8bit", "layer 0 *=4bit"],
                         block_size=32, outliers="0.5%")
    printed = json.loads(program("qsf-convert", demo / "demo-1m", theirs, "--quant", "3bit", "--tensor-type", "ffn_down=8bit",
                                 "--tensor-type", "layer 0 *=4bit", "--block-size", "32", "--outliers", "0.5%", "--json"))
    assert ours.read_bytes() == theirs.read_bytes()
    for differs in ("path", "seconds"):
        del report[differs], printed[differs]
    assert report == printed


def test_a_file_of_a_size_is_that_of_the_command_line(demo, program, text, tmp_path):
    ours, theirs = tmp_path / "ours.qsf", tmp_path / "theirs.qsf"
    report = qsf.convert(str(demo / "demo-1m"), str(ours), target_size="500kB", calibration=[text], calibration_tokens=2048)
    program("qsf-convert", demo / "demo-1m", theirs, "--target-size", "500kB", "--calibration", text,
            "--calibration-tokens", "2048")
    assert report["file_bytes"] <= 500_000 and ours.read_bytes() == theirs.read_bytes()


def test_inspect_gives_what_the_program_prints(demo, program):
    path = demo / "demo-1m-mixed.qsf"
    printed = json.loads(program("qsf-inspect", path, "--json", "--tensors", "--verify"))
    assert qsf.inspect(path, tensors=True, verify=True) == printed
    assert "tensors" not in qsf.inspect(path)


def test_evaluate_task_gives_what_the_program_prints(demo, program, tmp_path):
    model, base, items = demo / "demo-1m-8bit.qsf", demo / "demo-1m", tmp_path / "items.jsonl"
    record = {"goal": "It was a dark", "sol1": "and stormy night", "sol2": "zq qz", "label": 0}
    items.write_text(json.dumps(record) + "\n" + json.dumps(record | {"label": 1}) + "\n")
    found = qsf.evaluate_task(model, "piqa", items, base, limit=2)
    printed = json.loads(program("qsf-eval", model, "--task", "piqa", "--task-file", items, "--base", base, "--json"))
    assert found | {"seconds": 0} == printed | {"seconds": 0}
    # One of the two labels is right, whatever the model says.
    assert found["items"] == 2 and found["measures"][0]["value"] == 0.5
    with pytest.raises(qsf.UsageError, match="gsm8k"):
        qsf.evaluate_task(model, "gsm8k", items)


def test_evaluate_gives_what_the_program_prints(demo, program, text):
    model, base = demo / "demo-1m-4bit.qsf", demo / "demo-1m"
    found = qsf.evaluate(model, text, base, ctx=128, chunks=3)
    printed = json.loads(program("qsf-eval", model, "--file", text, "--base", base, "--ctx", 128, "--chunks", 3, "--json"))
    del found["seconds"], printed["seconds"]
    assert found == printed and found["kld"]["mean"] > 0


def test_parts_joined_are_what_the_program_prints_of_the_whole(demo, program, text, tmp_path):
    model = demo / "demo-1m-4bit.qsf"
    parts = [tmp_path / "1.part", tmp_path / "2.part"]
    for i, part in enumerate(parts, 1):
        said = qsf.evaluate(model, text, ctx=128, chunks=5, part=f"{i}/2", part_out=part)
        assert said["part"] == f"{i}/2" and said["total_chunks"] == 5
    joined = qsf.join_evaluation(parts[::-1])
    printed = json.loads(program("qsf-eval", model, "--file", text, "--ctx", 128, "--chunks", 5, "--json"))
    assert [part["chunks"] for part in joined.pop("parts")] == [2, 3]
    del joined["seconds"], printed["seconds"]
    assert joined == printed
    with pytest.raises(qsf.BadInputError, match="all parts"):
        qsf.join_evaluation(parts[:1])


def test_statistics_have_the_bytes_of_the_program(demo, program, text, tmp_path):
    ours, theirs = [tmp_path / "o1", tmp_path / "o2", tmp_path / "ours"], [tmp_path / "t1", tmp_path / "t2", tmp_path / "theirs"]
    for i in range(2):
        assert qsf.calibrate(demo / "demo-1m", ours[i], calibration=[text], stats_part=f"{i + 1}/2")["part"] == f"{i + 1}/2"
        program("qsf-convert", demo / "demo-1m", "--stats-only", "--calibration", text, "--stats-part", f"{i + 1}/2",
                "--stats-out", theirs[i])
    assert qsf.merge_statistics(ours[:2], ours[2])["texts"] == 2
    program("qsf-convert", "--merge-stats", *theirs[:2], "--stats-out", theirs[2])
    assert [path.read_bytes() for path in ours] == [path.read_bytes() for path in theirs]
    with pytest.raises(qsf.UsageError, match="the file exists"):
        qsf.merge_statistics(ours[:2], ours[2])


def test_generate_gives_the_text_of_the_program(demo, program):
    path = demo / "demo-1m-4bit.qsf"
    for options, flags in [({"temperature": 0}, ["--temp", 0]), ({"temperature": 1.0, "seed": 7}, ["--temp", 1, "--seed", 7])]:
        text = qsf.generate(path, "Once upon a time", max_tokens=24, **options)
        printed = json.loads(program("qsf-run", path, "-p", "Once upon a time", "-n", 24, "--json", *flags))
        assert text == printed["text"]


def test_pieces_of_a_text_are_the_text(demo):
    model = qsf.Model(demo / "demo-1m-4bit.qsf", threads=1)
    pieces = []
    text = model.generate("Once upon a time", max_tokens=20, temperature=0, on_token=pieces.append)
    assert len(pieces) > 5 and "".join(pieces) == text
    assert list(model.stream("Once upon a time", max_tokens=20, temperature=0)) == pieces
    assert qsf.generate(model, "Once upon a time", max_tokens=20, temperature=0) == text
    ids = model.tokenize("Once upon a time")
    assert model.detokenize(ids).strip() == "Once upon a time"


def test_a_model_serves_several_threads_at_once(demo):
    model = qsf.Model(demo / "demo-1m-4bit.qsf", threads=1)
    prompts = ["Once upon a time", "The king", "In the morning"]
    alone = [model.generate(prompt, max_tokens=16, temperature=0) for prompt in prompts]
    together = [None] * len(prompts)

    def work(i):
        together[i] = model.generate(prompts[i], max_tokens=16, temperature=0)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_none_is_as_good_as_leaving_an_option_out(demo, tmp_path):
    report = qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", quant="8bit", target_size=None, force=False)
    assert report["type"] == "8bit"
    with pytest.raises(qsf.UsageError, match="the file exists"):
        qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", quant="8bit")
    qsf.convert(demo / "demo-1m", tmp_path / "x.qsf", quant="8bit", force=True)


def test_penalties_and_stop_texts_are_those_of_the_program(demo, program, capsys):
    path = demo / "demo-1m-4bit.qsf"
    prompt, common = "Once upon a time", ["-n", 24, "--temp", 0, "--json"]
    penalties = {"repeat_penalty": 1.5, "presence_penalty": 0.5, "frequency_penalty": 0.25, "repeat_last_n": 32}
    flags = [word for name, value in penalties.items() for word in ("--" + name.replace("_", "-"), value)]
    model = qsf.Model(path, verbose=True)
    said = capsys.readouterr().err
    assert "demo-1m-4bit.qsf" in said and "threads" in said
    plain = model.generate(prompt, max_tokens=24, temperature=0)
    assert "24 tokens" in capsys.readouterr().err
    penalized = model.generate(prompt, max_tokens=24, temperature=0, **penalties)
    assert penalized == json.loads(program("qsf-run", path, "-p", prompt, *common, *flags))["text"] != plain
    word = plain.split()[3]
    assert model.generate(prompt, max_tokens=24, temperature=0, stop=word) == plain[: plain.index(word)]
    assert model.generate(prompt, max_tokens=24, temperature=0, stop=["not there", word]) == plain[: plain.index(word)]
    assert len(model.tokenize(model.generate(prompt, max_tokens=24, temperature=0, ignore_eos=True))) > 10
    with pytest.raises(qsf.UsageError, match="repeat_penalty"):
        model.generate(prompt, repeat_penalty=-1.0)
    with pytest.raises(qsf.UsageError, match="seed"):
        model.generate(prompt, seed=2**53)


def test_a_saved_base_gives_the_figures_of_a_running_one(demo, text, tmp_path):
    base = tmp_path / "base.logprobs"
    saved = qsf.evaluate(demo / "demo-1m", text, save_base=base, chunks=2)
    assert saved["saved_base"]["file_bytes"] == base.stat().st_size
    found, live = (qsf.evaluate(demo / "demo-1m-4bit.qsf", text, b, chunks=2) for b in (base, demo / "demo-1m"))
    assert found["kld"]["mean"] == pytest.approx(live["kld"]["mean"], rel=1e-3)
    assert (found["base"], found["top1"]) == (live["base"], live["top1"])
