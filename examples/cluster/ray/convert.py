"""Converts with N Ray tasks: convert.py N ARGUMENTS OF gguf-convert...

Ray starts a task again whose worker or node died; the part then goes on where it was. RAY_ADDRESS names the cluster, else one
is started here. GGUF_CONVERT names the program, GGUF_CORES the cores of a task (1).
"""

import os
import subprocess
import sys

import ray

PROGRAM = os.environ.get("GGUF_CONVERT", "gguf-convert")
CORES = int(os.environ.get("GGUF_CORES", "1"))


@ray.remote(num_cpus=CORES, max_retries=3, retry_exceptions=[subprocess.CalledProcessError])
def part(plan: str, number: int, count: int) -> None:
    """One part of the plan. A call that fails or is killed raises, and Ray calls it again."""
    command = [PROGRAM, "part", plan, f"{number}/{count}", "--threads", str(CORES), "--quiet"]
    subprocess.run(command, check=True)


def main() -> None:
    count, arguments = int(sys.argv[1]), sys.argv[2:]
    plan = os.path.abspath(f"plan-{os.getpid()}.json")
    subprocess.run([PROGRAM, "plan", plan, *arguments], check=True)
    ray.init()
    ray.get([part.remote(plan, number, count) for number in range(1, count + 1)])
    subprocess.run([PROGRAM, "assemble", plan], check=True)


if __name__ == "__main__":
    main()
