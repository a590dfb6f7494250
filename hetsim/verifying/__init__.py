"""Does a certificate of ``hetsim recommend`` hold? Shares no code with the rest of hetsim.

docs/certificate.md says what a certificate claims, what is taken on trust, and what is checked.
"""

from hetsim.verifying.checking import Held, verify
from hetsim.verifying.node import Broken, Untrue

__all__ = ["Broken", "Held", "Untrue", "verify"]
