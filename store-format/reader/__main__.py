"""A second reader of ledgers, written from the pages of this format alone.

usage: python store-format/reader LEDGER_DIR [ck:ID]

Checks a whole ledger. With an id, or its first six digits at least, it prints what that checkpoint came from.
exit codes: 0 all is well, 1 another ledger than --ledger ID says, 2 usage, 3 it cannot be decided, 5 damaged
"""
import sys

from check import Ledger, NotOpened
from lineage import lineage


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[0].startswith("-") or arguments[1:] and not arguments[1].startswith("ck:"):
        print(__doc__.split("\n\n", 1)[1], file=sys.stderr)
        return 2
    try:
        ledger = Ledger(arguments[0]).check()
    except NotOpened as error:
        print(f"unknown  {error}", file=sys.stderr)
        return 3
    for severity, where, what in ledger.findings:
        print(f"{severity:5}{where}: {what}", file=sys.stderr)
    fold = ledger.fold
    if fold:
        print(f"ledger {fold.ledger.hex()}: {len(fold.standings)} statements, {len(ledger.objects)} objects", file=sys.stderr)
    if ledger.exit_code or not arguments[1:]:
        return ledger.exit_code
    wanted = arguments[1].removeprefix("ck:")
    found = [identity for kind, identity in fold.claimants if kind == "checkpoint" and identity.hex().startswith(wanted)]
    if len(wanted) < 6 or len(found) != 1:
        print(f"unknown  {len(found)} checkpoints begin with `{wanted}`", file=sys.stderr)
        return 3
    sys.stdout.write(lineage(ledger, found[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
