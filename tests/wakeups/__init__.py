"""Wake-ups: whatever yields a turn is woken by the event that it waits for, not by an unrelated timer."""
