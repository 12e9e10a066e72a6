"""Writes runtime/src/source/huggingface/pickle/testdata/small.bin, the file of torch.save that tests read.

    python3 -m venv /tmp/venv-torch && /tmp/venv-torch/bin/pip install torch
    /tmp/venv-torch/bin/python scripts/make_torch_checkpoint.py

Every way that a model's tensors are commonly saved in: a module's state dict with its metadata, tied weights, a
parameter, rows of a larger tensor, a number, and a type that torch saves in its newer form. Values count up, so that the
test in pickle/tests/real.rs knows all of them. Two runs differ in the serialization id only.
"""

from pathlib import Path

import torch

OUT = Path(__file__).parent.parent / "runtime/src/source/huggingface/pickle/testdata/small.bin"


def counted(count, dtype, *shape):
    return torch.arange(count).to(dtype).reshape(shape)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(3, 4)
        self.embed.weight = torch.nn.Parameter(counted(12, torch.float32, 3, 4))
        self.head = torch.nn.Linear(4, 3, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("steps", torch.tensor(7))


state = Model().state_dict()
state["norm"] = torch.nn.Parameter(counted(5, torch.bfloat16, 5))
state["rows"] = counted(8, torch.float16, 4, 2)[1:3]
state["packed"] = counted(6, torch.float8_e4m3fn, 2, 3)
state["mask"] = counted(2, torch.bool, 1, 1, 2)
state["none"] = torch.zeros(0, 4, dtype=torch.float64)
OUT.parent.mkdir(parents=True, exist_ok=True)
torch.save(state, OUT)
print(f"{OUT}: {OUT.stat().st_size} bytes, torch {torch.__version__}")
for name, tensor in torch.load(OUT, weights_only=True).items():
    print(name, tensor.dtype, list(tensor.shape), tensor.flatten().tolist())
