"""Checks a ledger, and prints what a checkpoint of it came from.

usage: python store-format/reader LEDGER_DIR [ck:ID]      ID may be its first six digits or more

exit codes: 0 nothing is damaged, 2 usage, 3 it cannot be decided, 5 the ledger is damaged
"""
import sys

from check import Ledger, NotOpened
from lineage import Lineage

def main(directory=None, wanted=None, *more):
    if directory is None or more or wanted and (not wanted.startswith("ck:") or len(wanted) < 9):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        ledger = Ledger(directory).check()
    except NotOpened as error:
        print(f"unknown  {error}", file=sys.stderr)
        return 3
    for severity, where, what in ledger.findings:
        print(f"{severity}  {where}: {what}", file=sys.stderr)
    if ledger.fold:
        print(f"ledger {ledger.fold.ledger.hex()}", file=sys.stderr)
        print(f"{len(ledger.leaves)} statements, {len(ledger.objects)} objects", file=sys.stderr)
    if ledger.exit_code or not wanted:
        return ledger.exit_code
    found = [one for kind, one in ledger.fold.claimants if kind == "checkpoint" and f"ck:{one.hex()}".startswith(wanted)]
    if len(found) != 1:
        print(f"unknown  {len(found)} checkpoints begin with `{wanted}`", file=sys.stderr)
        return 3
    lineage = Lineage(ledger)
    lineage.tell(0, "", "checkpoint", found[0])
    print("\n".join(lineage.lines))
    return 0

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
