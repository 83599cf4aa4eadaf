"""How people read out what is written short: numbers, money, dates, addresses, units and signs.

A list of rules, each a pattern and what it becomes, applied in order: what holds a number together
(an address, a price, a time) comes before the numbers themselves, which come last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from num2words import num2words

__all__ = ["read_numbers", "read_out"]

Reader = Callable[[re.Match[str]], str]

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_DASH = r"[-–—−]"


def read_out(text: str) -> str:
    """The text as it is read, in words."""
    for pattern, reader in _RULES:
        text = pattern.sub(reader, text)
    return re.sub(r"[ \t]{2,}", " ", text)


# -- numbers ---------------------------------------------------------------------------------------


def cardinal(number: str) -> str:
    """`1,234.50` in words; digits after the point one by one."""
    whole, _, fraction = number.replace(",", "").partition(".")
    words = digits(whole) if len(whole) > 1 and whole[0] == "0" else _words(int(whole))
    return f"{words} point {digits(fraction)}" if fraction else words


def digits(number: str) -> str:
    """One by one."""
    return " ".join(_words(int(digit)) for digit in number if digit.isdigit())


def year(number: int) -> str:
    """As years are read: nineteen eighty-four, two thousand five, twenty twenty-four."""
    if 2000 <= number < 2010 or number % 1000 == 0:
        return _words(number)
    return str(num2words(number, to="year"))


def ordinal(number: int) -> str:
    """First, twenty-second."""
    return str(num2words(number, to="ordinal"))


def _words(number: int) -> str:
    return str(num2words(number)).replace(",", "").replace(" and ", " ")


def _plural(number: str, one: str, many: str) -> str:
    return one if number in ("1", "1.0") else many


# -- addresses -------------------------------------------------------------------------------------

_SIGNS = {".": " dot ", "-": " dash ", "_": " underscore ", "/": " slash ", "+": " plus "}


def _spell_signs(text: str) -> str:
    return "".join(_SIGNS.get(character, character) for character in text)


def _email(match: re.Match[str]) -> str:
    return f"{_spell_signs(match[1])} at {_spell_signs(match[2])}"


def _url(match: re.Match[str]) -> str:
    """The host and the first step of its path: nobody reads out the rest."""
    host = match[1].removeprefix("www.")
    step = (match[2] or "").strip("/").split("/")[0]
    stop = match[3] or ""
    path = f" slash {_spell_signs(step)}" if step else ""
    return _spell_signs(host) + path + stop


def _file(match: re.Match[str]) -> str:
    return f"{_spell_signs(match[1])} dot {match[2].upper()}"


def _dotted_numbers(match: re.Match[str]) -> str:
    return " point ".join(cardinal(part) for part in match[1].split("."))


def _ip(match: re.Match[str]) -> str:
    return " dot ".join(_words(int(part)) for part in match[0].split("."))


def _version(match: re.Match[str]) -> str:
    return "version " + " point ".join(cardinal(part) for part in match[1].split("."))


def _phone(match: re.Match[str]) -> str:
    groups = re.findall(r"\d+", match[0])
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(digits(group) for group in groups)


# -- money -----------------------------------------------------------------------------------------

_CURRENCIES: Mapping[str, tuple[str, str, str, str]] = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₩": ("won", "won", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_SCALES = {
    "k": "thousand",
    "m": "million",
    "mn": "million",
    "b": "billion",
    "bn": "billion",
    "t": "trillion",
}
_PER = {"hr": "hour", "h": "hour", "mo": "month", "yr": "year", "wk": "week"}


def _money(match: re.Match[str]) -> str:
    sign, amount, scale, per = match[1], match[2], match[3], match[4]
    one, many, small, smalls = _CURRENCIES[sign]
    tail = f" per {_PER.get(per, per)}" if per else ""
    if scale:
        name = _SCALES.get(scale.lower(), scale.lower())
        return f"{cardinal(amount)} {name} {many}{tail}"
    whole, _, cents = amount.partition(".")
    if len(cents) == 2 and small:
        parts = []
        if whole != "0":
            parts.append(f"{cardinal(whole)} {_plural(whole, one, many)}")
        if int(cents):
            parts.append(f"{_words(int(cents))} {small if int(cents) == 1 else smalls}")
        return (" and ".join(parts) or f"zero {many}") + tail
    return f"{cardinal(amount)} {_plural(amount, one, many)}{tail}"


# -- units and fractions ---------------------------------------------------------------------------

_UNITS: Mapping[str, tuple[str, str]] = {
    "W": ("watt", "watts"),
    "V": ("volt", "volts"),
    "mA": ("milliampere", "milliamperes"),
    "bpm": ("beat per minute", "beats per minute"),
    "psi": ("pound per square inch", "pounds per square inch"),
    "tbsp": ("tablespoon", "tablespoons"),
    "tsp": ("teaspoon", "teaspoons"),
    "gal": ("gallon", "gallons"),
    "in.": ("inch", "inches"),
    "wk": ("week", "weeks"),
    "wks": ("week", "weeks"),
    "yr": ("year", "years"),
    "yrs": ("year", "years"),
    "mo": ("month", "months"),
    "mos": ("month", "months"),
    "m²": ("square meter", "square meters"),
    "km²": ("square kilometer", "square kilometers"),
    "m³": ("cubic meter", "cubic meters"),
    "µm": ("micrometer", "micrometers"),
    "µs": ("microsecond", "microseconds"),
    "μm": ("micrometer", "micrometers"),
    "μs": ("microsecond", "microseconds"),
    "fps": ("frame per second", "frames per second"),
    "dB": ("decibel", "decibels"),
    '"': ("inch", "inches"),
    "″": ("inch", "inches"),
}
_DENOMINATORS = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 8: "eighth"}


def _unit(match: re.Match[str]) -> str:
    one, many = _UNITS[match[2]]
    return f"{cardinal(match[1])} {_plural(match[1], one, many)}"


def _feet_and_inches(match: re.Match[str]) -> str:
    return f"{_words(int(match[1]))} foot {_words(int(match[2]))}"


def _fraction(match: re.Match[str]) -> str:
    above, below = int(match[1]), int(match[2])
    if (above, below) == (24, 7):
        return "twenty-four seven"
    if above == below:
        return f"{_words(above)} {_words(below)}"
    if above < below and below in _DENOMINATORS:
        name = _DENOMINATORS[below]
        halves = "halves" if below == 2 else name + "s"
        return f"{_words(above)} {name if above == 1 else halves}"
    return f"{_words(above)} out of {_words(below)}"


def _thousands(match: re.Match[str]) -> str:
    return f"{cardinal(match[1])} {_SCALES[match[2].lower()]}"


def _decade(match: re.Match[str]) -> str:
    number = int(match[1])
    if number >= 1000:
        century, tens = divmod(number, 100)
        if number == 2000:
            return "two thousands"
        return f"{_words(century)} {_tens(tens)}" if tens else f"{_words(century)} hundreds"
    return _tens(number)


def _tens(number: int) -> str:
    return _words(number).removesuffix("y") + "ies" if number >= 20 else _words(number) + "s"


def _scientific(match: re.Match[str]) -> str:
    sign = "minus " if match[2] else ""
    return f"{cardinal(match[1])} times ten to the {sign}{_words(int(match[3]))}"


def _plain_number(match: re.Match[str]) -> str:
    written = match[0]
    if written in _SPELLED:
        return _SPELLED[written]
    if len(written) == 4 and written.isdigit() and (1100 <= int(written) < 2100):
        return year(int(written))
    if len(written) > 15 and "." not in written:
        return digits(written)  # nobody counts that far
    if Decimal(written.replace(",", "")) >= Decimal(10) ** 15:
        return digits(written)
    return cardinal(written)


_SPELLED = {
    "911": "nine one one",
    "404": "four oh four",
    "411": "four one one",
    "007": "double oh seven",
}

_DAYS = {
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Tues": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Thurs": "Thursday",
    "Fri": "Friday",
    "Sat": "Saturday",
    "Sun": "Sunday",
}
_DAY = "|".join(sorted(_DAYS, key=len, reverse=True))
_TLDS = "com|org|net|io|ai|edu|gov|dev|app|info|co|uk|de|fr|kr|jp|me|tv"
_FILES = (
    "py|md|txt|js|ts|html|css|json|pdf|csv|png|jpg|jpeg|gif|mp3|mp4|wav|yaml|yml|toml|exe|zip|sh|"
    "cpp|rs|go|java|docx?|xlsx?|pptx?"
)


def _meridiem(letter: str) -> str:
    return "A.M." if letter.lower() == "a" else "P.M."


def _hour(match: re.Match[str]) -> str:
    return f"{_words(int(match[1]))} {_meridiem(match[2])}"


def _clock(match: re.Match[str]) -> str:
    minutes = int(match[2])
    said = (
        "" if not minutes else f" oh {_words(minutes)}" if minutes < 10 else f" {_words(minutes)}"
    )
    return f"{_words(int(match[1]))}{said} {_meridiem(match[3])}"


def _hours(match: re.Match[str]) -> str:
    return f"{_words(int(match[1]))} to {_words(int(match[2]))} {_meridiem(match[3])}"


def _days(match: re.Match[str]) -> str:
    return f"{_DAYS[match[1]]} to {_DAYS[match[2]]}"


_RULES: list[tuple[re.Pattern[str], Reader | str]] = [
    # What stands for nothing that is said.
    (re.compile(r"(?<!\w)[:;]-?[)(DP](?!\w)"), ""),
    # Addresses.
    (re.compile(r"\b([\w.+-]+)@([\w-]+(?:\.[\w-]+)+)"), _email),
    (
        re.compile(
            r"\bhttps?://([\w.-]*\w)(?::\d+)?(/[^\s?#),]*?)?(?:[?#]\S*?)?([.,!?)]*)(?=\s|$)"
        ),
        _url,
    ),
    (re.compile(rf"\b((?:[\w-]+\.)+(?:{_TLDS}))(/[\w/-]*)?()\b(?!@)"), _url),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), _ip),
    (re.compile(rf"\b([\w-]+)\.({_FILES})\b"), _file),
    (re.compile(r"\b[vV](?:er(?:sion)?\.? ?)?(\d+(?:\.\d+)+)\b"), _version),
    (re.compile(r"\b(\d+(?:\.\d+){2,})\b"), _dotted_numbers),
    (re.compile(r"(?<!\w)\+\d{1,3}(?:[ -]\d{2,4}){2,4}\b"), _phone),
    (re.compile(r"(?<!\w)\(\d{3}\) ?\d{3}-\d{4}\b|\b\d{3}-\d{3}-\d{4}\b|\b\d{3}-\d{4}\b"), _phone),
    (re.compile(r"(?<!\w)@(\w+)"), r"at \1"),
    # Names with signs in them.
    (re.compile(r"\bC\+\+"), "C plus plus"),
    (re.compile(r"\bC#"), "C sharp"),
    (re.compile(r"(?<!\w)\.NET\b"), "dot NET"),
    (re.compile(r"\b(\w+) ?& ?(\w+)"), r"\1 and \2"),
    (re.compile(r"\band/or\b"), "and or"),
    (re.compile(r"\bN/A\b"), "not applicable"),
    (re.compile(r"\b([A-Z])/([A-Z])\b"), r"\1 \2"),
    (re.compile(r"\be\.g\.,?(?=\s|$)"), "for example"),
    (re.compile(r"\bi\.e\.,?(?=\s|$)"), "that is"),
    (re.compile(r"\ba\.?k\.?a\.?(?=\s|$)"), "also known as"),
    (re.compile(r"\betc\.(?=\s+[a-z])"), "et cetera"),
    (re.compile(r"\betc\."), "et cetera."),
    (re.compile(r"\bp\. (?=\d)"), "page "),
    (re.compile(r"\bpp\. (?=\d)"), "pages "),
    (re.compile(r"\b[mM][pP](\d)\b"), r"MP \1"),
    (re.compile(r"^(\d{1,3})\) "), r"\1. "),
    (re.compile(r"π"), "pi"),
    (re.compile(r"Ω"), "ohm"),
    (re.compile(r"(?<=\d)½"), " and a half"),
    (re.compile(r"(?<=\d)¼"), " and a quarter"),
    (re.compile(r"(?<=\d)¾"), " and three quarters"),
    (re.compile(r"\bkm/h\b"), "kilometers per hour"),
    # Money.
    (
        re.compile(
            rf"([$€£¥₩₹])({_NUMBER})"
            r"(?: ?(thousand|million|billion|trillion|[kK]|[mM]n?|[bB]n?|T)\b)?"
            r"(?:/(hr|h|mo|yr|wk|day|hour|month|year|week|person)\b)?"
        ),
        _money,
    ),
    (re.compile(rf"\b({_NUMBER})¢"), r"\1 cents"),
    # Days and times.
    (re.compile(rf"(?<=[aApP][mM]){_DASH}(?=\d)"), " to "),
    (re.compile(rf"\b({_DAY})\.?{_DASH}({_DAY})\b"), _days),
    (re.compile(rf"\b(\d{{1,2}}) ?{_DASH} ?(\d{{1,2}}) ?([aApP])\.?[mM]\b\.?"), _hours),
    (re.compile(r"\b(\d{1,2}):([0-5]\d) ?([aApP])\.?[mM]\b\.?"), _clock),
    (re.compile(r"\b(\d{1,2}) ?([aApP])\.?[mM]\b\.?"), _hour),
    # Ranges, signs and sums.
    (re.compile(rf"\b({_NUMBER}) ?{_DASH} ?({_NUMBER}) ?%"), r"\1 to \2 percent"),
    (re.compile(rf"({_NUMBER}) ?%"), r"\1 percent"),
    (re.compile(r"\b(\d+)[xX](\d+)\b"), r"\1 by \2"),
    (re.compile(rf"({_NUMBER}) ?(cm|mm|m|km|in|ft) x ({_NUMBER})"), r"\1 \2 by \3"),
    (re.compile(r"(?<=\d) x (?=\d)"), " times "),
    (re.compile(r"(?<=\d) [-−–] (?=\d)"), " minus "),
    (re.compile(r"(?<=\d) \+ (?=\d)"), " plus "),
    (re.compile(r"(?<=\d) / (?=\d)"), " divided by "),
    (re.compile(r"(?<=\d) ?÷ ?(?=\d)"), " divided by "),
    (re.compile(r"√ ?(?=\d)"), "the square root of "),
    (re.compile(r"≈ ?"), "about "),
    (re.compile(r"≤ ?"), "at most "),
    (re.compile(r"≥ ?"), "at least "),
    (re.compile(r"(?<![\w.)])[-−](?=\d)"), "minus "),
    (re.compile(r"\b(\d+(?:\.\d+)?)e([+-]?)(\d{1,3})\b"), _scientific),
    (re.compile(r"\b(\d)'(\d{1,2})(?:\"|″)"), _feet_and_inches),
    (
        re.compile(
            rf"(?<![\w.])({_NUMBER}) ?("
            + "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
            + r")(?![\w²³])"
        ),
        _unit,
    ),
    (re.compile(r"(?<![\d/])(\d{1,3})/(\d{1,3})(?![\d/])"), _fraction),
    (re.compile(r"(?<![\d:])(\d{1,2}):(\d)(?![\d:])"), r"\1 to \2"),
    (re.compile(rf"(?<![\w.])({_NUMBER})(k|M|B|bn|mn)\b"), _thousands),
    (re.compile(r"(?<!\w)'?(\d{2}|\d{3}0)s\b"), _decade),
    (re.compile(r"(?<![\w.])(\d+)(?:st|nd|rd|th)\b"), lambda match: ordinal(int(match[1]))),
]
"""Before hibari's own reading of dates, clock times and most units."""

_LAST: list[tuple[re.Pattern[str], Reader | str]] = [
    (re.compile(r"(?<=[a-z])/s\b"), " per second"),
    (re.compile(r"(?<=[A-Za-z])-(?=\d)"), " "),
    (re.compile(r"(?<=[A-Za-z])(?=\d)"), " "),
    (re.compile(r"(?<=\d)(?=[A-Za-z])"), " "),
    (re.compile(r"(?<=\d)-(?=[A-Za-z])"), " "),
    (re.compile(rf"(?<![\w.]){_NUMBER}"), _plain_number),
    (re.compile(r"\d+"), lambda match: digits(match[0])),
]
"""After it: every number that is left."""


def read_numbers(text: str) -> str:
    """The numbers that nothing else has read."""
    for pattern, reader in _LAST:
        text = pattern.sub(reader, text)
    return text
