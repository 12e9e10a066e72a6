#!/usr/bin/env python3
"""Compares `qsf-eval --task` with lm-evaluation-harness and transformers, item by item.

    python -m venv --system-site-packages VENV    # of a python with torch and transformers
    VENV/bin/pip install lm-eval==0.4.13
    VENV/bin/python scripts/check_tasks_lm_eval.py QSF_EVAL MODEL_DIR ITEMS_DIR [--few-shot N] [--model OTHER] [--tasks A,B]

ITEMS_DIR is what scripts/make_task_items.py wrote. The harness runs its own tasks on these files, so prompts, examples and
figures are its own. Both compute in float32. With --model, qsf-eval scores that file instead, and differences are only said.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

MOST = 1e-3
FOLDER = Path(lm_eval.__file__).parent / "tasks"
# The harness's task, the split that is scored, and the one that examples are from.
TASKS = {
    "hellaswag": ("hellaswag/hellaswag.yaml", "validation", "train"),
    "winogrande": ("winogrande/default.yaml", "validation", "train"),
    "arc": ("arc/arc_easy.yaml", "test", "train"),
    "piqa": ("piqa/piqa.yaml", "validation", "train"),
    "mmlu": ("mmlu/default/_default_template_yaml", "test", "dev"),
    "truthfulqa_mc1": ("truthfulqa/truthfulqa_mc1.yaml", "validation", None),
    "truthfulqa_mc2": ("truthfulqa/truthfulqa_mc2.yaml", "validation", None),
    "lambada": ("lambada/lambada_standard.yaml", "test", "validation"),
}


def harness(model, task, items, few_shot, folder):
    """What the harness makes of a task: figures, and the log-likelihoods of each item."""
    include, split, examples = TASKS[task]
    name = task.removesuffix("1").removesuffix("2") if task.startswith("truthful") else task
    files = {split: str(items / f"{name}.jsonl")}
    if examples:
        files[examples] = str(items / f"{name}-train.jsonl")
    config = [
        f"include: {FOLDER / include}", f"task: qsf_{task}", "dataset_path: json", "dataset_name: null",
        f"dataset_kwargs: {json.dumps({'data_files': files})}",
    ]
    if task == "mmlu":
        # The harness has a task for each subject; this is all of them with the description of each.
        config.append(
            "description: \"The following are multiple choice questions (with answers) about "
            "{{subject.replace('_', ' ')}}.\\n\\n\""
        )
        config.append("process_docs: null")
    if task == "arc":
        config.append("validation_split: null")
    if task == "lambada":
        config.append("validation_split: validation")
    (folder / f"qsf_{task}.yaml").write_text("\n".join(config) + "\n")
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    found = lm_eval.simple_evaluate(
        model=model, tasks=[f"qsf_{task}"], num_fewshot=few_shot if examples else None, task_manager=manager,
        log_samples=True, bootstrap_iters=2,
    )
    samples = sorted(found["samples"][f"qsf_{task}"], key=lambda sample: sample["doc_id"])
    return found["results"][f"qsf_{task}"], samples


def ours(program, model, task, items, few_shot, folder):
    """What qsf-eval makes of it."""
    name = task.removesuffix("1").removesuffix("2") if task.startswith("truthful") else task
    out = folder / "items.jsonl"
    command = [program, model, "--task", task, "--task-file", items / f"{name}.jsonl", "--task-out", out, "--force", "--json",
               "--kv-type", "f32", "-q"]
    if few_shot and TASKS[task][2]:
        command += ["--few-shot", str(few_shot), "--few-shot-file", items / f"{name}-train.jsonl"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found, [json.loads(line) for line in out.read_text().splitlines()]


def compare(task, theirs, samples, found, lines):
    """Prints how far both are apart; true where they agree."""
    assert len(samples) == len(lines), (len(samples), len(lines))
    largest, greedy, choices, counted = 0.0, 0, 0, 0
    metric_of = {"truthfulqa_mc1": "mc1", "truthfulqa_mc2": "mc2"}.get(task, "acc")
    for sample, line in zip(samples, lines):
        expected = [tuple(response) for response in (r[0] if isinstance(r[0], (list, tuple)) else r for r in sample["resps"])]
        lls = [float(ll) for ll, _ in expected]
        mine = line["log_likelihoods"]
        if task == "truthfulqa_mc1":
            mine = mine[: len(lls)]
        if task == "truthfulqa_mc2":
            mine = mine[-len(lls):]
        assert len(mine) == len(lls), (task, len(mine), len(lls))
        apart = max(abs(a - b) for a, b in zip(lls, mine))
        if apart > MOST:
            print(f"  item {line['item']}: {lls} and {mine}")
        largest = max(largest, apart)
        if not task.startswith("truthful"):
            counted += len(lls)
            greedy += sum(str(g) == "True" and o or str(g) == "False" and not o for (_, g), o in zip(expected, line["greedy"]))
        if metric_of in line["chosen"]:
            choices += max(range(len(lls)), key=lls.__getitem__) == line["chosen"][metric_of]
        else:
            choices += 1
    good = largest <= MOST and choices == len(lines) and greedy == counted
    print(f"{task}: {len(lines)} items, log-likelihoods within {largest:.2e}, {choices} same choices, "
          f"greedy the same for {greedy} of {counted}")
    measures = {measure["name"]: measure for measure in found["measures"]}
    for name, key in [("acc", "acc,none"), ("acc_norm", "acc_norm,none"), ("ppl", "perplexity,none")]:
        if key in theirs:
            mine = measures[metric_of if name == "acc" else name]
            error = theirs.get(key.replace(",", "_stderr,"))
            said = f"{error:.6f}" if isinstance(error, float) else error
            print(f"  {name}: {theirs[key]:.6f} +- {said}, qsf-eval {mine['value']:.6f} +- {mine['stderr']:.6f}")
            good &= abs(theirs[key] - mine["value"]) <= (1e-6 if name != "ppl" else 1e-3 * theirs[key]) or task == "truthfulqa_mc2" and abs(theirs[key] - mine["value"]) < 1e-4
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model_dir")
    parser.add_argument("items", type=Path)
    parser.add_argument("--few-shot", type=int, default=0)
    parser.add_argument("--model", help="the file that qsf-eval scores [default: MODEL_DIR]")
    parser.add_argument("--tasks", default=",".join(TASKS))
    args = parser.parse_args()
    model = HFLM(pretrained=args.model_dir, dtype="float32", device="cpu", batch_size=1)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for task in args.tasks.split(","):
            theirs, samples = harness(model, task, args.items.resolve(), args.few_shot, Path(folder))
            found, lines = ours(args.program, args.model or args.model_dir, task, args.items, args.few_shot, Path(folder))
            good &= compare(task, theirs, samples, found, lines)
    if not good and not args.model:
        sys.exit("they differ")


if __name__ == "__main__":
    main()
