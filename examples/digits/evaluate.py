"""Judge a checkpoint on the digits that its training did not see."""

import argparse
import hashlib
import json
from pathlib import Path

from model import forward, load_checkpoint, load_split


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="a step-N folder")
    parser.add_argument("--out", type=Path, default=Path("results.json"))
    args = parser.parse_args()

    # The checkpoint's own settings make the split: another config could let training digits in.
    state, weights = load_checkpoint(args.checkpoint)
    _, (x, y) = load_split(state["config"])
    correct = forward(weights, x)[1].argmax(axis=1) == y
    by_digit = [correct[y == digit].mean() for digit in range(10)]

    file = args.checkpoint / "model.safetensors"
    results = {
        "task": "digits",
        "split": "test",
        "n": len(y),
        "metrics": {
            "accuracy": round(float(correct.mean()), 6),
            "worst_class_accuracy": round(float(min(by_digit)), 6),
        },
        "subject": {
            "step": state["step"],
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        },
    }
    args.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"accuracy {results['metrics']['accuracy']:.4f} on {len(y)} digits")


if __name__ == "__main__":
    main()
