"""The digit classifier: its config, its data, the network, and its checkpoints.

How it is trained and how it is judged lie in train.py and evaluate.py.
"""

import json
from pathlib import Path

import numpy as np
import yaml
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).resolve().parent


def load_config(path):
    """Read a config by its suffix; a frozen one is JSON and is read as JSON, not as YAML 1.1."""
    text = Path(path).read_text(encoding="utf-8")
    return json.loads(text) if Path(path).suffix == ".json" else yaml.safe_load(text)


def load_split(config):
    """Return (train_x, train_y), (test_x, test_y); equal settings give equal splits."""
    table = np.loadtxt(HERE / "digits.csv", delimiter=",", dtype=np.int64)
    x = (table[:, :-1] / config["data"]["pixel_max"]).astype(np.float32)
    y = table[:, -1]
    order = np.random.default_rng(config["seed"]).permutation(len(x))
    test, train = np.split(order, [int(len(x) * config["data"]["test_fraction"])])
    return (x[train], y[train]), (x[test], y[test])


def init(hidden, rng):
    """Return fresh weights, scaled so that activations keep their size."""
    return {
        "fc1.weight": rng.normal(0, 64**-0.5, (64, hidden)).astype(np.float32),
        "fc1.bias": np.zeros(hidden, np.float32),
        "fc2.weight": rng.normal(0, hidden**-0.5, (hidden, 10)).astype(np.float32),
        "fc2.bias": np.zeros(10, np.float32),
    }


def forward(weights, x):
    """Return the hidden activations and the probability of each digit."""
    hidden = np.maximum(x @ weights["fc1.weight"] + weights["fc1.bias"], 0)
    logits = hidden @ weights["fc2.weight"] + weights["fc2.bias"]
    # Shifting by the maximum changes no probability and keeps exp from overflowing.
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def gradients(weights, x, y):
    """Return the mean cross-entropy and its gradient by each tensor."""
    hidden, probabilities = forward(weights, x)
    rows = np.arange(len(y))
    loss = -np.log(probabilities[rows, y] + 1e-12).mean()
    d_logits = probabilities.copy()
    d_logits[rows, y] -= 1
    d_logits /= len(y)
    d_hidden = (d_logits @ weights["fc2.weight"].T) * (hidden > 0)
    return float(loss), {
        "fc1.weight": x.T @ d_hidden,
        "fc1.bias": d_hidden.sum(axis=0),
        "fc2.weight": hidden.T @ d_logits,
        "fc2.bias": d_logits.sum(axis=0),
    }


def save_checkpoint(folder, step, loss, weights, config):
    """Write a checkpoint; state.json comes last, so a folder without it is unfinished."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "state.json"
    # A second training into the same folder must not leave the old state beside new weights.
    state.unlink(missing_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "np"})
    facts = {"step": step, "loss": round(loss, 6), "config": config}
    state.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def load_checkpoint(folder):
    """Return the state and the weights of a finished checkpoint."""
    folder = Path(folder)
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    return state, load_file(folder / "model.safetensors")
