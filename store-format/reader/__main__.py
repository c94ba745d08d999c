"""Checks a ledger, and prints what a checkpoint of it came from.

usage: python store-format/reader LEDGER_DIR [ck:ID]      ID may be its first six digits or more
exit codes: 0 nothing is damaged, 2 usage, 3 it cannot be decided, 5 the ledger is damaged
"""
import sys

from check import Ledger
from lineage import lineage
from records import typed

def main(directory=None, wanted="ck:------", *more):
    if directory is None or more or not wanted.startswith("ck:") or len(wanted) < 9:
        sys.exit(print(__doc__, file=sys.stderr) or 2)
    ledger, found = Ledger(directory), []
    ledger.check()
    if ledger.fold:
        counts = f"{len(ledger.fold.standings)} statements, {len(ledger.objects)} objects"
        ledger.find(ledger.fold.ledger.hex(), counts, "ledger")
        found = [what for what in ledger.fold.state.claimants if typed(*what).startswith(wanted)]
    if wanted != "ck:------" and len(found) != 1:
        ledger.find(wanted, f"{len(found)} checkpoints begin so", "unknown")
    for finding in ledger.findings:
        print("{}  {}: {}".format(*finding), file=sys.stderr)
    if found and not ledger.exit_code:
        print("\n".join(lineage(ledger, *found)))
    return ledger.exit_code

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
