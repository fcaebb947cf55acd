"""Every bug report of other engines that the text front end, the API, the caches and the formats have to answer for names its tests, and these exist: field_reports_test.py ROOT.
field_reports.csv: row of the list of reports, file, and the name of a test in it (GoogleTest) or of a case (*.case)."""
import collections, csv, os, re, sys

ROOT = sys.argv[1]
NEEDED = [f"G{n:02}" for n in (1, 2, 3, 4, 5, 10, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 25, 26, 27, 29)] + ["X06", "X10", "X15"]


def has(path, test):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if path.endswith(".case"):
        return f"=== {test}" in text.splitlines()
    return re.search(rf"TEST(_F|_P)?\(\w+, {re.escape(test)}\)", text) is not None


def main():
    rows, bad = collections.Counter(), []
    with open(os.path.join(ROOT, "tests", "field_reports.csv"), encoding="utf-8", newline="") as f:
        for r in csv.DictReader(f):
            path = os.path.join(ROOT, r["file"])
            rows[r["row"]] += 1
            if not os.path.exists(path) or not has(path, r["test"]):
                bad.append(f"{r['row']}: {r['file']} has no test '{r['test']}'")
    bad += [f"{row}: no test is named" for row in NEEDED if not rows[row]]
    print("\n".join(bad) or f"{sum(rows.values())} tests for {len(rows)} reports")
    return 1 if bad else 0


sys.exit(main())
