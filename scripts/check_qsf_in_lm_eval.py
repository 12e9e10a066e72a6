#!/usr/bin/env python3
"""Compares the model "qsf" of lm-evaluation-harness with its own for transformers: log-likelihoods of tasks, of whole texts, and
greedy texts.

    scripts/make_task_items.py TEXT ITEMS_DIR
    VENV/bin/python scripts/check_qsf_in_lm_eval.py MODEL_DIR ITEMS_DIR [--model FILE] [--tasks A,B] [--text FILE]

VENV has torch, transformers, lm-eval 0.4.13 and qsf. Both run the harness's own tasks on the same items. transformers computes
MODEL_DIR in float32; qsf runs it, too, or FILE. Where FILE is given, differences are only said.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from check_tasks_lm_eval import MOST, harness
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from qsf.lm_eval import QsfLM

TASKS = "hellaswag,arc,lambada"


def responses(sample):
    """Log-likelihood and greediness of each continuation of an item."""
    return [response[0] if isinstance(response[0], (list, tuple)) else response for response in sample["resps"]]


def compare(task, theirs, ours):
    """Prints how far both are apart on a task; true where they agree."""
    (figures, samples), (mine, lines) = theirs, ours
    largest, total, count, choices, greedy = 0.0, 0.0, 0, 0, 0
    for sample, line in zip(samples, lines, strict=True):
        assert sample["doc_id"] == line["doc_id"] and sample["arguments"] == line["arguments"]
        pairs = list(zip(responses(sample), responses(line), strict=True))
        lls = [[float(pair[side][0]) for pair in pairs] for side in (0, 1)]
        for (a, same_a), (b, same_b) in pairs:
            apart = abs(float(a) - float(b))
            largest, total, count = max(largest, apart), total + apart, count + 1
            greedy += str(same_a) == str(same_b)
        best = [max(range(len(side)), key=side.__getitem__) for side in lls]
        choices += best[0] == best[1]
    print(f"{task}: {len(samples)} items, log-likelihoods within {largest:.2e}, {total / count:.2e} on average, "
          f"{choices} same choices, greedy the same for {greedy} of {count}")
    for name, value in figures.items():
        if isinstance(value, float) and "stderr" not in name:
            print(f"  {name.split(',')[0]}: {value:.6f}, qsf {mine[name]:.6f}")
    return largest <= MOST and choices == len(samples) and greedy == count


def requests(kind, arguments):
    return [Instance(kind, {}, argument, 0, ("texts", at, 1)) for at, argument in enumerate(arguments)]


def texts_of(path):
    """Prompts, and texts longer than the context."""
    words = path.read_text().split()
    prompts = [" ".join(words[at:at + 20]) for at in range(0, 2000, 100)]
    return prompts, [" ".join(words[at:at + 600]) for at in (0, 5000)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir")
    parser.add_argument("items", type=Path)
    parser.add_argument("--model", help="the file that qsf runs [default: MODEL_DIR]")
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--text", type=Path, help="a text for log-likelihoods of whole texts, and prompts")
    args = parser.parse_args()
    theirs = HFLM(pretrained=args.model_dir, dtype="float32", device="cpu", batch_size=1)
    # Keys and values as transformers has them.
    ours = QsfLM(args.model or args.model_dir, kv_type="f32")
    good = True
    for task in filter(None, args.tasks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            both = [harness(model, task, args.items.resolve(), 0, Path(folder)) for model in (theirs, ours)]
        good &= compare(task, *both)
    if args.text:
        prompts, long = texts_of(args.text)
        rolling = [model.loglikelihood_rolling(requests("loglikelihood_rolling", [(text,) for text in long])) for model in (theirs, ours)]
        print("loglikelihood_rolling:", *(f"{a:.4f} and {b:.4f}" for a, b in zip(*rolling)))
        # Of some hundred tokens each.
        good &= all(abs(a - b) <= MOST * 10 for a, b in zip(*rolling))
        asked = [(prompt, {"until": ["\n\n", "."], "max_gen_toks": 32}) for prompt in prompts]
        texts = [model.generate_until(requests("generate_until", asked)) for model in (theirs, ours)]
        same = sum(a == b for a, b in zip(*texts))
        print(f"generate_until: {same} of {len(asked)} texts the same; the first {texts[1][0]!r}")
        good &= same == len(asked)
    if not good and not args.model:
        sys.exit("they differ")


if __name__ == "__main__":
    main()
