"""Sessions as files: what there is, taking one elsewhere, removing one."""
