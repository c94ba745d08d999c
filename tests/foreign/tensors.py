"""The safetensors library reads a weights file and agrees with a listing of its tensors.

usage: tensors.py WEIGHTS [LISTING]    without a listing it prints the one it would agree with

A listing is JSON that holds, at any depth, one array of objects with `name`, `dtype`, `shape` and `blake3` (over the
tensor's bytes, as `b3sum` prints it); further fields are not looked at. Order does not matter; a missing or further
tensor does.
"""

import json
import subprocess
import sys
from pathlib import Path

import safetensors

FIELDS = ("name", "dtype", "shape", "blake3")


def blake3(data):
    """Return the digest of bytes, from a program that is not ours."""
    done = subprocess.run(["b3sum", "--no-names"], input=data, capture_output=True, check=True)
    return done.stdout.decode().strip()


def read(weights):
    """Return each tensor's fields, by name."""
    return {
        name: {
            "name": name,
            "dtype": tensor["dtype"],
            "shape": list(tensor["shape"]),
            "blake3": blake3(tensor["data"]),
        }
        for name, tensor in safetensors.deserialize(Path(weights).read_bytes())
    }


def find(document):
    """Return the first array of tensors in a JSON document, or nothing."""
    if isinstance(document, list):
        if document and all(isinstance(item, dict) and item.keys() >= set(FIELDS) for item in document):
            return document
        below = document
    elif isinstance(document, dict):
        below = document.values()
    else:
        return None
    return next((found for item in below if (found := find(item)) is not None), None)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    ours = read(sys.argv[1])
    if len(sys.argv) == 2:
        print(json.dumps([ours[name] for name in sorted(ours)], indent=2))
        return
    listing = find(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    if listing is None:
        sys.exit(f"{sys.argv[2]}: no array of tensors with {', '.join(FIELDS)}")
    theirs = {item["name"]: {field: item[field] for field in FIELDS} for item in listing}
    if len(theirs) != len(listing):
        sys.exit(f"{sys.argv[2]}: a tensor is listed twice")
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            sys.exit(f"{name}: safetensors reads {ours.get(name)}, the listing says {theirs.get(name)}")
    print(f"{len(ours)} tensors agree with the safetensors library")


if __name__ == "__main__":
    main()
