"""Fit a line by gradient descent, slowly; stop cleanly when told to, and go on from the last checkpoint."""

import argparse
import json
import os
import random
import signal
import struct
import time
from pathlib import Path

stop = False


def on_term(_signal, _frame):
    """Remember that the time is up; the loop ends after the step that it is in."""
    global stop
    stop = True


def save(out, step, weights):
    """Write one step's weights as safetensors, under their name only when they are whole."""
    data = struct.pack(f"<{len(weights)}d", *weights)
    tensor = {"dtype": "F64", "shape": [len(weights)], "data_offsets": [0, len(data)]}
    header = json.dumps({"line": tensor, "__metadata__": {"step": str(step)}}).encode()
    unfinished = out / f".step-{step}"
    unfinished.mkdir(parents=True, exist_ok=True)
    (unfinished / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
    unfinished.rename(out / f"step-{step}")


def load(out):
    """Return the last step that was saved and its weights."""
    steps = [int(path.name.removeprefix("step-")) for path in out.glob("step-*")]
    if not steps:
        return 0, [0.0, 0.0]
    data = (out / f"step-{max(steps)}" / "model.safetensors").read_bytes()
    return max(steps), list(struct.unpack("<2d", data[8 + struct.unpack("<Q", data[:8])[0] :]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder that receives step-N/")
    args = parser.parse_args()
    # Inside a run this is what was frozen, whatever has become of config.json since.
    run = os.environ.get("LEDGER_RUN_DIR")
    config = json.loads(Path(run, "frozen-config.json").read_text() if run else Path("config.json").read_text())

    signal.signal(signal.SIGTERM, on_term)
    step, (slope, offset) = load(args.out)
    print(f"seed {config['seed']}: from step {step}", flush=True)
    while step < config["steps"] and not stop:
        step += 1
        # A requeued attempt draws what the first one would have drawn.
        x = random.Random(f"{config['seed']} {step}").uniform(-1, 1)
        error = slope * x + offset - (3 * x + 1)
        slope, offset = slope - config["rate"] * error * x, offset - config["rate"] * error
        time.sleep(config["seconds_a_step"])
        print(f"step {step}: error {error:+.4f}", flush=True)
        if step % config["save_every"] == 0 or step == config["steps"] or stop:
            save(args.out, step, [slope, offset])


if __name__ == "__main__":
    main()
