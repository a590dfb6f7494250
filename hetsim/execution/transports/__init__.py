"""Where devices live: threads of this process, or Ray actors."""
