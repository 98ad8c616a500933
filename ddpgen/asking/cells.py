"""What stands in a cell of a table: a number, perhaps written otherwise, a date, or nothing."""

import re
from datetime import datetime

# Numbers that `table` refuses: with a decimal comma, marks between thousands, a sign, another dash
# than -, parentheses, or a unit that most of them have.
SIGN = "(?:[$€£¥₹%]|USD|EUR|GBP|CHF|JPY|CNY|INR)"
BELOW = "[-+\u2212\u2013]"
_PLAIN = r"\d*\.?\d+"
_COMMAS = (
    r"(\d+,\d+|\d{1,3}([.,'\u2019\u202f \xa0]\d{3})+([.,]\d+)?"
    r"|\d{1,2}(,\d{2})+,\d{3}([.]\d+)?)"
)
MARKED = re.compile(
    rf"{BELOW}?({SIGN}?\s?{BELOW}?{_COMMAS}\s?{SIGN}?|{SIGN}\s?{BELOW}?{_PLAIN}"
    rf"|{_PLAIN}\s?{SIGN}|\({SIGN}?\s?({_PLAIN}|{_COMMAS})\s?{SIGN}?\))"
    rf"|[\u2212\u2013]{_PLAIN}|{_PLAIN}-"
)
UNIT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+) ?([A-Za-z°µΩ]\S{0,7})")
# What ISO 8601 writes otherwise: 31/12/2019, 12/31/19 10:30, Jan 5, 2020, 10:30; and months.
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[.]?"
_DAY = r"\d{1,2}"
_TIME = r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?( ?[ap]\.?m\.?)?"
_DATE = (
    rf"({_DAY}[./-]{_DAY}[./-](\d\d|\d{{4}})|\d{{4}}[./]{_DAY}[./]{_DAY}"
    rf"|{_DAY}[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} {_DAY},? \d{{4}}"
    rf"|\d{{4}}[./-](0?[1-9]|1[0-2])|(0?[1-9]|1[0-2])[/-]\d{{4}}|{_MONTH}[ -]\d{{2,4}}"
    r"|\d{4}[ -]?(Q[1-4]|W\d\d)|Q[1-4][ -]\d{4})"
)
WRITTEN_DATE = re.compile(rf"({_DATE},?([ T]{_TIME})?|{_TIME})", re.IGNORECASE)
WRITTEN_TIME = re.compile(_TIME, re.IGNORECASE)
# What Arrow takes for an empty cell of CSV, and so does `table`.
EMPTY = {
    *("#N/A", "#N/A N/A", "#NA", "N/A", "n/a", "NA", "NULL", "null"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
}
# What spreadsheets write where a formula has no result; #N/A is empty in any case.
ERRORS = {"#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"}
LIMIT = re.compile(r"[<>\u2264\u2265] ?=? ?(\d+\.?\d*|\.\d+)")  # <0.84, of what was measured
# What people write for an empty cell, in small letters.
MARKS = {
    *("?", "-", "--", "---", ".", "..", "_", "*", "unknown", "unk", "missing", "empty", "blank"),
    *("none", "nil", "null", "(null)", "na", "n.a.", "n/a", "n/d", "nd", "not available", "tbd"),
    *("not applicable", "not known", "no data", "undefined", "keine angabe", "k.a."),
}


def is_numeral(cell: str) -> bool:
    """Whether a cell is a number, perhaps one to be written as 1234.5 first."""
    return is_number(cell) or bool(MARKED.fullmatch(cell.strip()))


def is_date(cell: str) -> bool:
    """Whether a cell is a day, a month or a time."""
    if WRITTEN_DATE.fullmatch(cell.strip()):
        return True
    try:
        datetime.fromisoformat(cell.strip())
    except ValueError:
        return False
    return True


def is_number(cell: str) -> bool:
    """Whether a cell is a number as `table` reads it."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
