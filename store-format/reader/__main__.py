"""Checks a ledger, and prints what a checkpoint of it came from.

usage: python store-format/reader LEDGER_DIR [ck:ID]      ID may be its first six digits or more
exit codes: 0 nothing is damaged, 2 usage, 3 it cannot be decided, 5 the ledger is damaged
"""
import re
import sys

from check import Ledger
from lineage import lineage
from records import typed

def main(directory=None, wanted=None, *more):
    if directory is None or more or wanted and not re.fullmatch("ck:[0-9a-f]{6,64}", wanted):
        print(__doc__, file=sys.stderr)
        return 2
    ledger, found = Ledger(directory), []
    ledger.check()
    if ledger.fold and wanted:
        found = [what for what in ledger.fold.state.claimants if typed(*what).startswith(wanted)]
        if len(found) != 1:
            ledger.find(wanted, f"{len(found)} checkpoints begin so", "unknown")
    for severity, where, what in ledger.findings:
        print(f"{severity}  {where}: {what}", file=sys.stderr)
    if ledger.fold:
        print(f"ledger {ledger.fold.ledger.hex()}", file=sys.stderr)
        print(f"{len(ledger.fold.state.standings)} statements, {len(ledger.objects)} objects", file=sys.stderr)
    if found and not ledger.exit_code:
        print("\n".join(lineage(ledger, found[0])))
    return ledger.exit_code

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
