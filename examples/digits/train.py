"""Train the digit classifier and save a checkpoint every so many steps."""

import argparse
import os
from pathlib import Path

import numpy as np

from model import gradients, init, load_config, load_split, save_checkpoint


def default_config():
    """Return the frozen config inside a run, else the one that people edit."""
    run = os.environ.get("LEDGER_RUN_DIR")
    return Path(run, "frozen-config.json") if run else Path("config.yaml")


def clip(grads, norm):
    """Scale the gradients down to the given length; no norm leaves them alone."""
    length = np.sqrt(sum(float((grad**2).sum()) for grad in grads.values()))
    if norm is None or length <= norm:
        return grads
    return {name: grad * np.float32(norm / length) for name, grad in grads.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=default_config())
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder that receives step-N/")
    args = parser.parse_args()

    config = load_config(args.config)
    optim, steps, save_every = config["optim"], config["train"]["steps"], config["train"]["save_every"]
    lr, momentum = np.float32(optim["lr"]), np.float32(optim["momentum"])
    (x, y), _ = load_split(config)
    rng = np.random.default_rng(config["seed"])
    weights = init(config["model"]["hidden"], rng)
    velocity = {name: np.zeros_like(tensor) for name, tensor in weights.items()}

    for step in range(1, steps + 1):
        batch = rng.integers(len(x), size=optim["batch_size"])
        loss, grads = gradients(weights, x[batch], y[batch])
        for name, grad in clip(grads, optim["clip_norm"]).items():
            velocity[name] = momentum * velocity[name] - lr * grad
            ahead = momentum * velocity[name] - lr * grad
            weights[name] = weights[name] + (ahead if optim["nesterov"] else velocity[name])
        if step % save_every == 0 or step == steps:
            save_checkpoint(args.out / f"step-{step}", step, loss, weights, config)
            print(f"step {step}: loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
