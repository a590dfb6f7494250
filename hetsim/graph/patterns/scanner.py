"""The words of a pattern's text, one at a time, and errors that show the place."""

from __future__ import annotations

import re

from hetsim.errors import UsageError

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SPACE = re.compile(r"\s*")
_SHOWN = 60


class Scanner:
    """A text and a position in it; white space between words does not count."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self.at = 0
        self._skip()

    def peek(self, symbol: str) -> bool:
        """Whether `symbol` comes next."""
        return self._text.startswith(symbol, self.at)

    def take(self, symbol: str) -> bool:
        """Go past `symbol` where it comes next; say whether it did."""
        if not self.peek(symbol):
            return False
        self.at += len(symbol)
        self._skip()
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Go past what `pattern` matches here, if it does."""
        found = pattern.match(self._text, self.at)
        if found is not None:
            self.at = found.end()
            self._skip()
        return found

    def expect(self, symbol: str, wanted: str) -> None:
        """Go past `symbol`; UsageError, which says what was wanted, where it is not there."""
        if not self.take(symbol):
            raise self.expected(wanted)

    def at_end(self) -> bool:
        """Whether the text is over."""
        return self.at == len(self._text)

    def expected(self, wanted: str) -> UsageError:
        """Return the error that something else was expected here."""
        found = "the end of the text" if self.at_end() else repr(self._text[self.at])
        return self.error(f"expected {wanted}, found {found}")

    def error(self, what: str, at: int | None = None, hint: str | None = None) -> UsageError:
        """Return an error about a position, by default the one that is reached."""
        at = self.at if at is None else at
        before, after = self._text[:at], self._text[at:]
        if len(before) > _SHOWN:
            before = "..." + before[-_SHOWN:]
        if len(after) > _SHOWN:
            after = after[:_SHOWN] + "..."
        shown = " ".join(f"{before}<here>{after}".split())
        return UsageError(
            f"{what} at character {at + 1}: {shown}", where=f"pattern '{self._name}'", hint=hint
        )

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self.at)
        self.at = self.at if found is None else found.end()
