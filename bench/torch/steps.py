"""Steps of training a small network, eager and compiled.

Prints a JSON line for each kind: the milliseconds of a step in each of several
batches of steps, and the loss after the last.
"""

import json
import sys
import time

import torch

QUICK = "--quick" in sys.argv[1:]
BATCHES = 2 if QUICK else 8
STEPS = 2 if QUICK else 40


def network():
    layers = []
    for _ in range(8):
        layers += [torch.nn.Linear(1024, 1024), torch.nn.LayerNorm(1024), torch.nn.GELU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10)).cuda()


def measure(kind):
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
    torch.cuda.synchronize()
    times = []
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(STEPS):
            loss = step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / STEPS * 1e3)
    print(json.dumps({"kind": kind, "ms": times, "loss": loss.item()}), flush=True)


for kind in ("eager", "compiled"):
    measure(kind)
