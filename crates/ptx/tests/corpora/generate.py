#!/usr/bin/env python3
"""Writes PTX from Triton, Numba, LLVM and nvcc for the corpus tests.

    generate.py OUTPUT [--nvcc PATH] [--sources FOLDER]

OUTPUT gets the folders triton/, numba/ and llvm/, and with --nvcc also nvcc/ (all
.cu files of --sources, by default those beside this script, for several
targets). No GPU is needed: everything is compiled ahead of time.

Pins, for a virtual environment of Python 3.11 or later:
    triton==3.6.0
    numba==0.68.1
    numba-cuda==0.30.4
    numpy==2.4.6
    llvmlite==0.50.0
    cuda-bindings==13.5.0
    cuda-core==1.2.2
    cuda-pathfinder==1.9.0
    nvidia-nvvm==13.0.88
    nvidia-cuda-nvrtc==13.0.88
    nvidia-cuda-runtime==13.0.96
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

# No caches beside the sources or in the home folder; before the imports that
# would make them.
sys.dont_write_bytecode = True
CACHE = tempfile.TemporaryDirectory()
os.environ["TRITON_CACHE_DIR"] = CACHE.name

import llvm_kernels  # noqa: E402
import numba_kernels  # noqa: E402
import triton_kernels  # noqa: E402

# Architectures that nvcc writes differently for: two generators, several
# generations of matrix and copy instructions.
NVCC_RUNS = [(target, "lines", ["-lineinfo"]) for target in ("75", "80", "90a", "100a", "120")]
NVCC_RUNS += [(target, "rdc", ["-rdc=true"]) for target in ("75", "100a")]
NVCC_RUNS += [(target, "debug", ["-G"]) for target in ("90a", "120")]
# Jump tables (brx.idx) are off without a density.
NVCC_RUNS += [(target, "jumps", ["--jump-table-density=10"]) for target in ("80", "100a")]


def nvcc(compiler, sources, output):
    output.mkdir(parents=True, exist_ok=True)
    for source in sorted(sources.glob("*.cu")):
        for target, mode, flags in NVCC_RUNS:
            if source.stem == "separate" and mode != "rdc":
                continue  # refers to other files
            path = output / f"{source.stem}.{target}.{mode}.ptx"
            command = [compiler, "-w", "-std=c++17", f"-arch=compute_{target}", "-ptx", *flags]
            subprocess.run([*command, "-o", str(path), str(source)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--nvcc")
    parser.add_argument("--sources", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    arguments = parser.parse_args()
    triton_kernels.generate(arguments.output / "triton")
    numba_kernels.generate(arguments.output / "numba")
    llvm_kernels.generate(arguments.output / "llvm")
    if arguments.nvcc:
        nvcc(arguments.nvcc, arguments.sources, arguments.output / "nvcc")
    count = sum(1 for _ in arguments.output.rglob("*.ptx"))
    print(f"{count} PTX files below {arguments.output}")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
