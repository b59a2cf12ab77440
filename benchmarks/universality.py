"""Training steps per second of the universality study, all runs together against one at a time.

python benchmarks/universality.py
"""

from mimogc.experiments.bench import universality

if __name__ == "__main__":
    speeds = universality.measure()
    for speed in speeds:
        print(
            f"{speed.method:8s} {speed.naive:10,.0f} → {speed.batched:10,.0f} steps/s   {speed.ratio:5.1f} times"
        )
    print(f"whole table {universality.overall(speeds):.1f} times")
