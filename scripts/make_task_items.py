#!/usr/bin/env python3
"""Makes small tasks of a text: JSONL with the records of the hub's data sets, and the files of llama.cpp.

    scripts/make_task_items.py TEXT OUT_DIR [ITEMS]

The right answer is how the text goes on; the others are from elsewhere in it. Such items say nothing of a model, but any two
programs that score them must agree. The same text gives the same bytes.
"""

import json
import random
import re
import struct
import sys
from pathlib import Path

ITEMS = 200
EXAMPLES = 40


def sentences(text):
    """Sentences of a middling length, each with the one before it."""
    text = re.sub(r"\s+", " ", text)
    found = [s.strip() for s in re.split(r"(?<=[.!?]) ", text)]
    pairs = [(a, b) for a, b in zip(found, found[1:]) if 8 <= len(a.split()) <= 40 and 10 <= len(b.split()) <= 30]
    return [(a, b) for a, b in pairs if "[" not in a + b and "_" not in a + b]


class Maker:
    """Draws items of a text."""

    def __init__(self, text):
        self.pairs = list(dict(reversed(pair) for pair in sentences(text)).items())
        self.pairs = [(before, sentence) for sentence, before in self.pairs]
        self.random = random.Random(20)

    def begin(self):
        """A task begins: no sentence is asked for twice in one. The harness takes the same text, cut at two places, for one."""
        self.left = list(self.pairs)
        self.random.shuffle(self.left)

    def fresh(self):
        """The parts of a sentence that was not asked for."""
        return self.cut(*self.left.pop())

    def parts(self):
        """The parts of any sentence."""
        return self.cut(*self.random.choice(self.pairs))

    def cut(self, before, sentence):
        """A sentence, the beginning of the next one, and its end."""
        words = sentence.split()
        cut = self.random.randint(3, len(words) - 4)
        return before, " ".join(words[:cut]), " ".join(words[cut:])

    def choices(self, right, count):
        """Choices of which one is right, and which."""
        choices = [right] + [self.parts()[2] for _ in range(count - 1)]
        self.random.shuffle(choices)
        return choices, choices.index(right)

    def hellaswag(self, i):
        before, start, end = self.fresh()
        endings, label = self.choices(end, 4)
        if i % 5 == 0:
            # What pages of WikiHow have left in the real ones.
            endings = [e + "  [substeps] So it [title] went." for e in endings]
        return {
            "ind": i, "activity_label": self.random.choice(["Reading", "Telling a story"]),
            "ctx_a": before, "ctx_b": start, "ctx": f"{before} {start}",
            "endings": endings, "label": str(label),
        }

    def winogrande(self, i):
        while True:
            _, start, end = self.fresh()
            words = end.split()
            gap = self.random.randint(0, 1)
            wrong = self.random.choice(self.parts()[2].split())
            if wrong != words[gap] and all(word.isalpha() for word in [wrong, words[gap]]):
                break
        options = [words[gap], wrong]
        self.random.shuffle(options)
        words_with_gap = start.split() + words[:gap] + ["_"] + words[gap + 1:]
        answer = 1 + options.index(words[gap])
        return {
            "sentence": " ".join(words_with_gap), "option1": options[0], "option2": options[1], "answer": str(answer),
        }

    def arc(self, i):
        before, start, end = self.fresh()
        text, label = self.choices(end, 3 + i % 3)
        labels = "ABCDE" if i % 4 else "12345"
        return {
            "id": str(i), "question": f"{before} {start}",
            "choices": {"text": text, "label": list(labels[:len(text)])}, "answerKey": labels[label],
        }

    def piqa(self, i):
        before, start, end = self.fresh()
        (one, two), label = self.choices(end, 2)
        return {"goal": f"{before} {start}", "sol1": one, "sol2": two, "label": label}

    def mmlu(self, i):
        before, start, end = self.fresh()
        choices, label = self.choices(end, 4)
        # Some have the empty lines that real ones have.
        question = f"{before} {start}" + ("\n" if i % 7 == 0 else "")
        subjects = ["high_school_novels", "letters"]
        return {"question": question, "subject": subjects[i % 2], "choices": choices, "answer": label}

    def truthfulqa_mc(self, i):
        before, start, end = self.fresh()
        wrong = [self.parts()[2] for _ in range(5)]
        also_right = end.rstrip(".") + ", they say."
        return {
            "question": f"{before} {start}",
            "mc1_targets": {"choices": [end] + wrong[:3], "labels": [1, 0, 0, 0]},
            "mc2_targets": {"choices": [end, also_right] + wrong, "labels": [1, 1, 0, 0, 0, 0, 0]},
        }

    def lambada(self, i):
        while True:
            before, start, end = self.fresh()
            text = f"{before} {start} {end}".rstrip(".!?'\"”’)_;:")
            if text.split(" ")[-1].isalpha():
                return {"text": text}


TASKS = ["hellaswag", "winogrande", "arc", "piqa", "mmlu", "truthfulqa_mc", "lambada"]


def text(of):
    data = of.encode()
    return struct.pack("<I", len(data)) + data


def llama_cpp_files(out, records):
    """What llama-perplexity reads, of the same items."""
    lines = []
    for r in records["hellaswag"]:
        lines += [f"{r['activity_label']}: {r['ctx']}", r["label"], *r["endings"]]
    (out / "hellaswag.txt").write_text("".join(line + "\n" for line in lines))
    with open(out / "winogrande.csv", "w") as file:
        for i, r in enumerate(records["winogrande"]):
            sentence = r["sentence"].replace('"', "'")
            sentence = f'"{sentence}"' if "," in sentence else sentence
            file.write(f"{i},{sentence},{r['option1']},{r['option2']},{r['answer']}\n")
    items = []
    for r in records["arc"]:
        choices, key = r["choices"]["text"], r["choices"]["label"].index(r["answerKey"])
        answers = struct.pack("<I", len(choices)) + b"".join(map(text, choices))
        answers += b"".join(struct.pack("<I", i == key) for i in range(len(choices)))
        items.append(text(r["question"]) + answers + struct.pack("<I", 0))
    positions, at = [], 4 + 4 * len(items)
    for item in items:
        positions.append(at)
        at += len(item)
    head = struct.pack(f"<{1 + len(items)}I", len(items), *positions)
    (out / "multiple_choice.bin").write_bytes(head + b"".join(items))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    out = Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) == 4 else ITEMS
    out.mkdir(parents=True, exist_ok=True)
    maker = Maker(Path(sys.argv[1]).read_text())
    # Some sentences make no item of some tasks.
    if len(maker.pairs) < 2 * (count + EXAMPLES):
        sys.exit(f"{sys.argv[1]}: {len(maker.pairs)} fitting sentences; {2 * (count + EXAMPLES)} are needed for {count} items")
    records = {}
    for task in TASKS:
        maker.begin()
        records[task] = [getattr(maker, task)(i) for i in range(count)]
        examples = [getattr(maker, task)(i) for i in range(EXAMPLES)]
        for name, of in [(f"{task}.jsonl", records[task]), (f"{task}-train.jsonl", examples)]:
            with open(out / name, "w") as file:
                file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in of)
    llama_cpp_files(out, records)


if __name__ == "__main__":
    main()
