"""Python reads a frozen config and its sources to equal values of equal types.

usage: json_equal.py FROZEN SOURCE...    JSON, YAML or TOML sources, later ones over earlier ones

`True` is not 1 here and 1 is not 1.0. PyYAML speaks YAML 1.1 and the ledger YAML 1.2: a scalar that the two read
differently cannot be judged by this script, which then says so and exits 2.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

import yaml

# The plain scalars of the YAML 1.2 core schema.
CORE = [
    ("null", re.compile(r"(?:~|null|Null|NULL|)\Z")),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
    ("int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")),
    ("float", re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)\Z")),
    ("float", re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")),
]
# An integer with a leading zero has the same tag in both, but is octal in 1.1 only.
LEADING_ZERO = re.compile(r"[-+]?0[0-9]")


def refuse_ambiguous(node, path):
    """Exit 2 at the first plain scalar that YAML 1.1 and 1.2 read differently."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            refuse_ambiguous(key, path)
            refuse_ambiguous(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            refuse_ambiguous(value, path)
    elif isinstance(node, yaml.ScalarNode) and node.style is None:
        core = next((name for name, pattern in CORE if pattern.match(node.value)), "str")
        octal = core == "int" and LEADING_ZERO.match(node.value)
        if node.tag != f"tag:yaml.org,2002:{core}" or octal:
            line = node.start_mark.line + 1
            print(f"{path}:{line}: {node.value!r} reads differently in YAML 1.1 and 1.2", file=sys.stderr)
            sys.exit(2)


def read(path):
    """Return what Python's reader for this file type makes of it."""
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".json":
            return json.loads(text)
        case ".toml":
            return tomllib.loads(text)
        case ".yaml" | ".yml":
            refuse_ambiguous(yaml.compose(text, Loader=yaml.SafeLoader), path)
            return yaml.safe_load(text)
    sys.exit(f"{path}: neither JSON, YAML nor TOML by its suffix")


def merge(below, above):
    """Return `below` with `above` laid over it: tables key by key, everything else whole."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    merged = dict(below)
    for key, value in above.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return merged


def differences(left, right, where="$"):
    """Yield one line for each place where value or type differ."""
    if type(left) is not type(right):
        yield f"{where}: frozen {left!r} ({type(left).__name__}), source {right!r} ({type(right).__name__})"
    elif isinstance(left, dict):
        for key in sorted(left.keys() | right.keys()):
            if key not in left or key not in right:
                yield f"{where}.{key}: only in the {'frozen file' if key in left else 'source'}"
            else:
                yield from differences(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, list):
        if len(left) != len(right):
            yield f"{where}: frozen {len(left)} items, source {len(right)}"
        for index, pair in enumerate(zip(left, right)):
            yield from differences(*pair, f"{where}[{index}]")
    elif left != right:
        yield f"{where}: frozen {left!r}, source {right!r}"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    frozen = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    source = {}
    for path in map(Path, sys.argv[2:]):
        source = merge(source, read(path))
    found = list(differences(frozen, source))
    if found:
        sys.exit("\n".join(found))
    print(f"{sys.argv[1]}: equal in value and type")


if __name__ == "__main__":
    main()
