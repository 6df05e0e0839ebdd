"""Steps of training a small network, eager and compiled.

First prints a JSON line for each kind: its name, and the loss after the first
steps. Then, for each line on standard input, it trains on for some steps of
each kind and prints the milliseconds of one, in the same order: another process
can take its turn in between.
"""

import json
import sys
import time

import torch

QUICK = "--quick" in sys.argv[1:]
# (Few: who else uses the machine changes within tenths of a second.)
STEPS = 2 if QUICK else 8
KINDS = ("eager", "compiled")


def network():
    layers = []
    for _ in range(8):
        layers += [torch.nn.Linear(1024, 1024), torch.nn.LayerNorm(1024), torch.nn.GELU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10)).cuda()


def training(kind):
    """The function that makes a step, after ten of them, and their last loss."""
    torch.manual_seed(0)
    model = network()
    forward = torch.compile(model) if kind == "compiled" else model
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    inputs = torch.randn(256, 1024, device="cuda")
    labels = torch.randint(0, 10, (256,), device="cuda")

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(forward(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(10):
        loss = step()
    return step, loss.item()


def measure(step):
    # The other process had the device and the caches.
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / STEPS * 1e3


def main():
    steps = []
    for kind in KINDS:
        step, loss = training(kind)
        steps.append(step)
        print(json.dumps({"kind": kind, "loss": loss}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"times": [measure(step) for step in steps]}), flush=True)


main()
