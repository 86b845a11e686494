"""Sessions as long as anyone wants: how long they last, what they cost a step, and what they can still recall."""
