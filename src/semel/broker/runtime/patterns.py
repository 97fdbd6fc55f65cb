"""Regular expressions that come from clients: RE2's, as in Apache Kafka, whose time grows with the text and no faster.

Why: Python's own engine needs exponential time for some patterns, `(a+)+b` for one, and one loop serves all brokers.
"""

from collections.abc import Callable

import re2

# What a pattern may take when compiled. A hostile one then needs about half a millisecond for the longest topic name.
COMPILED_BYTES_MAX = 1 << 18


class PatternRefused(ValueError):
    """The text is no regular expression, or one that is too large."""


def compile_pattern(text: str) -> Callable[[str], bool]:
    """Give a function that says whether a whole text matches; PatternRefused says why there is none."""
    options = re2.Options()
    options.log_errors = False
    # Nobody reads groups, so RE2 need not follow them.
    options.never_capture = True
    options.max_mem = COMPILED_BYTES_MAX
    try:
        pattern = re2.compile(text, options)
    except re2.error as error:
        raise PatternRefused(error.args[0].decode(errors="replace")) from None
    except UnicodeEncodeError:
        raise PatternRefused("it is not valid Unicode") from None
    return lambda whole: pattern.fullmatch(whole) is not None
